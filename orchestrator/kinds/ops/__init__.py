"""Operators as a kind of run: which implementation of an operator is fast, and whether its results are right.

catalogue (configs/operators.yaml) ─▶ settings (the user's choice) ─▶ planning ─▶ analysis ─▶ chapter
"""
