"""Compare runs with each other, with a baseline, and with thresholds.

report.json, run folder, @last, baseline ── run_figures.py ──▶ Side: what one run measured
Side, Side ── pairing.py (pooling.py, unpaired_cells.py) ── cell_facts.py ── stats/two_runs.py ──▶ Comparison
Report, Against (baseline, thresholds, price) ── references.py ──▶ Report with baseline_comparison, thresholds, costs

place      a cell of one run, with the device that measured it
partner    the cell or device of the other run with which one is compared
stack      versions and settings of the software, the host or a device
fault      why a result judges nothing: throttled, contaminated, wrong, unsteady, none at all
margin     the tolerated slow-down; prior: the spread of launches that configs/margins.yaml expects
held       compared with a baseline or a threshold; unheld: without anything to compare with
What a cell, a launch, a mode and siblings are: analysis/__init__.py.
"""
