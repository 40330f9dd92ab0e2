"""Health of the hardware: signals, limits, verdicts."""
