"""Studies as a kind of run: a grid of operations, implementations, sizes and precisions, with a cell for each of them.

A row of the report is one cell. A point is a row apart from its implementation: device, operation, sizes, precision.

grid (the YAML file) ─▶ planning ─▶ analysis ─▶ chapter
"""
