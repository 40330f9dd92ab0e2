"""Studies as a kind of run: a cell for each operation, implementation, size and precision.

A row of the report is one cell. A point is a combination of device, operation, sizes and precision.

grid (the YAML file) ─▶ planning ─▶ analysis ─▶ chapter
"""
