"""Compare runs with each other, with a baseline, and with thresholds.

report.json, run folder, @last, baseline ── run_figures.py ──▶ Side: what one run measured
Side, Side ── pairing.py (pooling.py, unpaired_cells.py) ── cell_facts.py ── stats/two_runs.py ──▶ Comparison
Report, Against (baseline, thresholds, price) ── references.py ──▶ Report with baseline_comparison, thresholds, costs
"""
