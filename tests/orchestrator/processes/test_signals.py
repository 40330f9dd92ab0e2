"""processes/signals.py: a request to stop that comes when all is over changes nothing."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_signal_at_the_very_end_leaves_the_exit_code_alone(number: str, *, leaves: bool) -> None:
    """A process that is about to leave says how it went; otherwise what held before holds again."""
    source = (
        "import os, signal, sys\n"
        "from orchestrator.processes import signals\n"
        f"signal.signal(signal.{number}, signal.SIG_DFL)\n"
        "with signals.StopSignals(): pass\n"
        f"{'signals.leave()' if leaves else ''}\n"
        f"os.kill(os.getpid(), signal.{number})\n"
        "sys.exit(5)"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert done.returncode == (5 if leaves else -signal.Signals[number])


def test_a_command_leaves_at_its_end() -> None:
    """A signal after the command has said how it went changes nothing: its exit code stands."""
    source = (
        "import os, signal, sys\n"
        "from orchestrator.cli import orchestrate\n"
        "sys.argv = ['gpubench-orchestrate', '--no-such-option']\n"
        "try: orchestrate(prog_name='gpubench-orchestrate')\n"
        "finally: os.kill(os.getpid(), signal.SIGTERM)"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
