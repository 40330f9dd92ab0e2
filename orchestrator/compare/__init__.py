"""Runs held against each other, against a baseline, and against thresholds.

report.json, a run's folder, @last, a baseline ── reading.py ──▶ Side   what one run measured, reduced (side.py)
Side, Side ── pairing.py: which cell with which ── facts.py: may they be compared? ── stats/two_runs.py ──▶ Comparison
               ├─ pooling.py: what a baseline has of a cell, on one device or several
               └─ lone.py: why a cell has no partner
Report, Against (baseline, thresholds, price) ── against.py ──▶ Report with baseline_comparison, thresholds, costs
"""
