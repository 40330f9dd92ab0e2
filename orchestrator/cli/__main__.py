"""`python -m orchestrator.cli` is torch-gpu-benchmark, for a checkout that is not installed."""

from orchestrator.cli.entry_points import benchmark

benchmark()
