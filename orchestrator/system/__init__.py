"""This machine: processes, signals, log files, safe reads. Knows nothing of GPUs."""
