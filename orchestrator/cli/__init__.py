"""The programs gpubench-orchestrate and torch-gpu-benchmark: one file for each command."""
