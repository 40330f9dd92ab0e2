"""The gate: measure until a comparison has a verdict on each cell, or its time is up.

planning.py puts both sides into each round, noise.py names a machine that varies too much, sides.py compares the sides,
undecided.py adds rounds of undecided cells, verdict.py counts the comparison against the run, outcome.py renders it.
"""
