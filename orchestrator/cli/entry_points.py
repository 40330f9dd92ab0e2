"""The two programs: they hear signals before they import what they are made of, which takes them a tenth of a second.

Only this and what it imports stands between Python's own start and that.
"""

import sys
from typing import NoReturn

from orchestrator import HOW_TO_INSTALL
from orchestrator.system import stop_signals
from protocol.exit_codes import ExitCode


def orchestrate() -> NoReturn:
    """gpubench-orchestrate, by the command line of this process."""
    _run("orchestrate", "gpubench-orchestrate")


def benchmark() -> NoReturn:
    """torch-gpu-benchmark, by the command line of this process."""
    _run("benchmark", "torch-gpu-benchmark")


def _run(command: str, program: str) -> NoReturn:
    stop_signals.begin()
    try:
        from orchestrator.cli import commands
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"error: {missing.name} is not installed. {HOW_TO_INSTALL}\n")
        sys.exit(ExitCode.INTERNAL)
    getattr(commands, command)(prog_name=program)
    raise AssertionError("click ends the process")
