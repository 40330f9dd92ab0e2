"""Plans: the cells of a run, their order, and an estimate of its duration. Pure."""
