"""`python -m orchestrator.cli` is torch-gpu-benchmark, for a checkout that is not installed."""

from orchestrator.programs import benchmark

benchmark()
