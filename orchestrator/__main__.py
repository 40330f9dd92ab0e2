"""Run gpubench-orchestrate as `python -m orchestrator`, from a checkout that is not installed."""

from orchestrator.cli.entry_points import orchestrate

orchestrate()
