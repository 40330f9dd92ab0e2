"""`python -m orchestrator` is gpubench-orchestrate, for a checkout that is not installed."""

from orchestrator.programs import orchestrate

orchestrate()
