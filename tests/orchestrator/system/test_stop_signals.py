"""system/stop_signals.py: a request to stop that comes when all is over changes nothing."""

import signal
from pathlib import Path

import pytest

from tests.fakes.commands import ROOT, python


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_signal_at_the_very_end_leaves_the_exit_code_alone(number: str, *, leaves: bool) -> None:
    """A process that is about to leave keeps its code; otherwise the earlier handlers are restored."""
    source = (
        "import os, signal, sys\n"
        "from orchestrator.system import stop_signals as signals\n"
        f"signal.signal(signal.{number}, signal.SIG_DFL)\n"
        "with signals.StopSignals(): pass\n"
        f"{'signals.leave()' if leaves else ''}\n"
        f"os.kill(os.getpid(), signal.{number})\n"
        "sys.exit(5)"
    )
    assert python("-c", source, cwd=ROOT).returncode == (5 if leaves else -signal.Signals[number])


@pytest.mark.parametrize("leaves", [True, False])
def test_an_interrupted_import_leaves_the_exit_code_alone(tmp_path: Path, *, leaves: bool) -> None:
    """Of `python -m`: a KeyboardInterrupt out of exec(), by which dataclasses are made, would end it by SIGINT."""
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "from orchestrator.system import stop_signals as signals\n"
        "try: exec('raise KeyboardInterrupt')\n"
        "except KeyboardInterrupt: pass\n"
        f"{'signals.leave()' if leaves else ''}\n"
        "sys.exit(4)"
    )
    assert python("-m", "program", cwd=tmp_path).returncode == (4 if leaves else -signal.SIGINT)


def test_a_command_leaves_at_its_end() -> None:
    """A signal after the end of the command does not change its exit code."""
    source = (
        "import os, signal, sys\n"
        "from orchestrator.cli.commands import orchestrate\n"
        "sys.argv = ['gpubench-orchestrate', '--no-such-option']\n"
        "try: orchestrate(prog_name='gpubench-orchestrate')\n"
        "finally: os.kill(os.getpid(), signal.SIGTERM)"
    )
    assert python("-c", source, cwd=ROOT).returncode == 2


AT_AN_IMPORT = """
import os, runpy, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            sys.meta_path.remove(finder)
            os.kill(os.getpid(), signal.{number})
finder = Finder()
sys.meta_path.insert(0, finder)
sys.argv = ["program", *{words!r}.split()]
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""
DRY = "--gpu-ids cpu:0 -m lstm --dry-run"


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("click", "SIGINT"),
        ("click", "SIGHUP"),
        ("orchestrator.cli.report", "SIGTERM"),
        ("orchestrator.cli.hooks", "SIGINT"),
    ],
)
def test_a_program_handles_signals_before_its_imports(tmp_path: Path, module: str, number: str) -> None:
    """While it imports its modules, and before a command handles them: exit code 4; SIGHUP changes nothing."""
    source = AT_AN_IMPORT.format(module=module, number=number, words=DRY)
    done = python("-c", source, cwd=tmp_path)
    expected = (0, "") if number == "SIGHUP" else (4, "error: interrupted\n")
    assert (done.returncode, done.stderr) == expected


@pytest.mark.parametrize(
    ("words", "module", "number", "code"),
    [
        ("status", "orchestrator.run_reports.run_lookup", "SIGINT", 4),
        ("status", "orchestrator.run_reports.run_lookup", "SIGHUP", -1),
        ("history", "orchestrator.history.queries", "SIGTERM", -15),  # a group below the program
    ],
)
def test_a_command_that_measures_nothing_is_ended_as_any_program(
    tmp_path: Path, words: str, module: str, number: str, code: int
) -> None:
    """Also by its terminal: it has no run to save."""
    source = AT_AN_IMPORT.format(module=module, number=number, words=words)
    assert python("-c", source, cwd=tmp_path).returncode == code


def test_ignored_signals_stay_ignored(tmp_path: Path) -> None:
    """A shell ignores SIGINT for what it starts in the background."""
    source = (
        "import os, signal\n"
        "from orchestrator.system import stop_signals as signals\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signals.begin()\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "signals.settle()\n"
        "os.kill(os.getpid(), signal.SIGINT)"
    )
    assert python("-c", source, cwd=tmp_path).returncode == 0
