"""Compute the figures of a report from the journal and the result files of a run.

archive    the stored run: its plan, its devices, and the attempts in its journal (state/archive.py)
evidence   figures of the results and the telemetry of a run (evidence.py)

The package orchestrator defines the other terms, such as cell, launch and siblings.
"""
