"""From the name of a run to its report, and from the report to its files."""
