"""Studies as a kind of run: a grid of operations, implementations, sizes and precisions, with one cell for each point.

grid (the YAML file) ─▶ planning ─▶ analysis ─▶ chapter
"""
