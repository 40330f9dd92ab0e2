"""Plans: the cells (things to measure) of a run, their order, and an estimate of its duration. Pure."""
