"""The figures of a report: how they are called, and what they are."""
