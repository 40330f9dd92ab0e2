"""Run torch-gpu-benchmark as `python -m orchestrator.cli`, from a checkout that is not installed."""

from orchestrator.cli.entry_points import benchmark

benchmark()
