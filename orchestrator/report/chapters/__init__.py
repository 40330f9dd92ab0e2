"""The chapters of the report: each turns a Report into sections for all formats."""
