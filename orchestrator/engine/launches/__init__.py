"""The launches: how their processes start, report and end."""
