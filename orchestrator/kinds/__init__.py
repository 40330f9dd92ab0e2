"""The kinds of run: benchmark, triage, burn-in, gate, operators, study. Each module holds what only its kind needs.

A kind is one value (engine/kind.py), whose members are functions and data: how to plan, measure and report. The package
orchestrator defines cell, launch and round. analysis/__init__.py defines archive and evidence.
"""
