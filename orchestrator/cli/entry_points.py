"""Entry points of the two programs, which catch signals before their slow imports. Import nothing slow here."""

import sys
from typing import NoReturn

from orchestrator import HOW_TO_INSTALL
from orchestrator.system import stop_signals
from protocol.exit_codes import ExitCode


def orchestrate() -> NoReturn:
    """Run gpubench-orchestrate with the command line of this process."""
    _run("orchestrate", "gpubench-orchestrate")


def benchmark() -> NoReturn:
    """Run torch-gpu-benchmark with the command line of this process."""
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
