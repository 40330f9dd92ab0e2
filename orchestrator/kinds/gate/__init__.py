"""The gate: measure until more launches do not help a comparison, or its time is up.

The sides are a baseline and this run, or two settings (models, options, interpreters) that the run measures in turn. A
cell's partner is the compared cell of the other side. Noise is the variation between launches of a cell.

planning.py puts launches of both sides into each round, noise.py warns of a machine that varies too much, sides.py
compares the sides, undecided.py adds rounds of undecided cells, verdict.py turns the comparison into the run's
verdict, outcome.py renders it.
"""
