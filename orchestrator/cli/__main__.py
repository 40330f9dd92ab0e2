"""`python -m orchestrator.cli` is torch-gpu-benchmark, for a checkout that is not installed."""

from orchestrator.cli import benchmark

benchmark(prog_name="torch-gpu-benchmark")
