"""Figures of a report: their types and names."""
