"""Workloads of cells, one module each, named as in `protocol.cell.Workload`."""
