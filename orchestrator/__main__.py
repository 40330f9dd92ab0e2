"""`python -m orchestrator` is gpubench-orchestrate, for a checkout that is not installed."""

from orchestrator.cli.entry_points import orchestrate

orchestrate()
