"""Operators as a kind of run: speed of implementations, and verification of their results.

A row of the report is one operator on one device, in one implementation, precision and shape (set of sizes). A roof is
a limit of the GPU that probes measured. Eager is PyTorch's own implementation, which the others are compared with.

catalogue (configs/operators.yaml) ─▶ settings (the user's choice) ─▶ planning ─▶ analysis ─▶ chapter
"""
