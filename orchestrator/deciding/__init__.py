"""What to do next: the state of the run, and what each event means for the rest. Pure but for a few gates."""
