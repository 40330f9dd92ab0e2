"""Compute the figures of a report from the journal and the result files of a run.

cell       one model (or probe, operator) in one configuration on one device: what a run plans and measures
launch     one process that measures one cell; a round launches every cell once; an attempt is a started launch
mode       whether one device works at a time (solo) or all at once (loaded)
siblings   the other GPUs of the run with the same name and memory
archive    the stored run: its plan, its devices, and the attempts that its journal records
evidence   figures of the results and the telemetry of a run (evidence.py)
"""
