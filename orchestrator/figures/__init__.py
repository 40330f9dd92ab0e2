"""The types of the report, and the table of figures."""
