"""Readings of the GPUs during a run, taken in a process of its own."""
