"""`python -m orchestrator` is gpubench-orchestrate, for a checkout that is not installed."""

from orchestrator.cli import orchestrate

orchestrate(prog_name="gpubench-orchestrate")
