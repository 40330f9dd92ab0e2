"""What a cell can measure, one module each, named as in `protocol.cell.Workload`."""
