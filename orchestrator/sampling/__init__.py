"""What the GPUs are like while the run works on them, read in a process of its own."""
