"""Launches: how their processes start, what they report, and how they end."""
