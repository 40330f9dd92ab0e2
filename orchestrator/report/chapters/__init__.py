"""The chapters of the report: each turns a Report into sections, once for all formats."""
