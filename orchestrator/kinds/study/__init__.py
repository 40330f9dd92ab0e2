"""Studies as a kind of run: a grid of operations, implementations, sizes and precisions, with a cell for each of them.

A row of the report is one cell. A point is a combination of device, operation, sizes and precision.

grid (the YAML file) ─▶ planning ─▶ analysis ─▶ chapter
"""
