"""Compare runs with each other, with a baseline, and with thresholds.

report.json, run folder, @last, baseline ── run_figures.py ──▶ Side: what one run measured
Side, Side ── pairing.py (pooling.py, unpaired_cells.py) ── cell_facts.py ── stats/two_runs.py ──▶ Comparison
Report, Against (baseline, thresholds, price) ── references.py ──▶ Report with baseline_comparison, thresholds, costs

place      a cell of one run, with the device that measured it
partner    the cell or device of the other run with which one is compared
stack      versions and settings of the software, the host or a device
fault      why a cell has no score: no result, a wrong one, a smaller batch size, throttled, contaminated, unsteady
margin     the tolerated slow-down; prior: the spread of launches that configs/margins.yaml expects
held       a run compared with a baseline; unheld: its devices without any cell in the baseline

The package orchestrator defines the other terms, such as cell, launch, mode and siblings.
"""
