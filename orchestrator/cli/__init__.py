"""The two programs: one file for each command."""
