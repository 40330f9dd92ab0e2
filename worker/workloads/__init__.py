"""Workloads: kinds of measurement, one module each, named as in `protocol.cell.Workload`.

Their `run(assign, stage, isolation)` measures the cell of a launch and returns the Result. isolation: "fork" or "exec".
"""
