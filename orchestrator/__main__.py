"""`python -m orchestrator` is gpubench-orchestrate, for a checkout that is not installed."""

import sys

from orchestrator import HOW_TO_INSTALL
from protocol.exit_codes import ExitCode

try:
    from orchestrator.cli import orchestrate
except ModuleNotFoundError as missing:
    sys.stderr.write(f"error: {missing.name} is not installed. {HOW_TO_INSTALL}\n")
    sys.exit(ExitCode.INTERNAL)

orchestrate(prog_name="gpubench-orchestrate")
