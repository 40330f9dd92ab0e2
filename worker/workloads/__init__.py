"""Workloads: what a cell measures, one module each, named as in `protocol.cell.Workload`.

`run(assign, stage, isolation)` measures the cell of a launch and returns its result.
"""
