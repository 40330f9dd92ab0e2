"""`python -m orchestrator.cli` runs torch-gpu-benchmark from a checkout that is not installed."""

from orchestrator.cli.entry_points import benchmark

benchmark()
