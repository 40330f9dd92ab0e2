"""How commands end: the exit code, and what is said with it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator import run
from orchestrator.cli import program
from orchestrator.machine import seen
from protocol.exit_codes import ExitCode
from tests.fakes.commands import TINY
from tests.fakes.nvml import ROOT
from tests.fakes.runs import FakeRun, shipped

Invoke = Callable[..., Result]


def test_a_disk_that_refuses_ends_with_five(invoke: Invoke, executed: list[object]) -> None:
    """A storage error is told without a traceback, and with what to do about the run."""
    ended = invoke(*TINY, "--quiet")
    [(_, paths)] = executed
    assert ended.exit_code == ExitCode.INTERNAL
    assert ended.stderr == (
        f"error: disk full. Free space, then `gpubench-orchestrate report {paths.folder}` makes the report of what was "
        f"measured, and `gpubench-orchestrate resume {paths.folder}` measures the rest.\n"
    )


def test_a_mistake_of_ours_ends_with_five_and_says_where_to_report(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback, and what to do with it."""
    monkeypatch.setattr(seen, "look", lambda *_: 1 / 0)
    ended = invoke("info")
    assert ended.exit_code == ExitCode.INTERNAL
    assert "ZeroDivisionError: division by zero" in ended.stderr
    assert "CONTRIBUTING.md says how" in ended.stderr


def test_an_interruption_before_the_run_ends_with_four(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while devices are looked for is no failure of ours."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(seen, "look", interrupted)
    ended = invoke("info")
    assert (ended.exit_code, ended.stderr) == (ExitCode.INCOMPLETE, "error: interrupted\n")


def test_a_reader_who_leaves_changes_nothing(tmp_path: Path) -> None:
    """`| head -0`: no complaint about a broken pipe, and the exit code is the command's own."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "orchestrator", "list-models"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_messages_are_folded_only_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal to its width below "error: ", elsewhere on one line, for grep."""
    text = "error: " + "word " * 40
    assert program.wrapped(text) == text
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    lines = program.wrapped(text).splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("       word") for line in lines[1:])


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Replaces the loop by the report of a run that never ran, with these counts of cells."""

    def end(**cells: int) -> None:
        made = FakeRun(tmp_path / "pretended", models=shipped("lstm"))
        made.finish()
        report = made.report()
        summary = replace(report.summary, cells=replace(report.summary.cells, **cells))
        passed = replace(report.verdict, exit_code=int(ExitCode.PASSED))
        monkeypatch.setattr(run, "execute", lambda *_: replace(report, summary=summary, verdict=passed))

    return end


@pytest.mark.parametrize(
    ("counts", "strict", "code"),
    [
        ({}, True, ExitCode.PASSED),
        ({"degraded": 1}, False, ExitCode.PASSED),
        ({"degraded": 1}, True, ExitCode.MISSED),
        ({"referred": 1}, True, ExitCode.MISSED),
        ({"does_not_fit": 1}, True, ExitCode.MISSED),
    ],
)
def test_strict_counts_what_did_not_fit(
    invoke: Invoke, pretend: Callable[..., None], counts: dict[str, int], strict: bool, code: ExitCode
) -> None:
    """A degraded result, or one that does not fit, passes unless --strict is given."""
    pretend(**{"degraded": 0, "referred": 0, "does_not_fit": 0} | counts)
    assert invoke(*TINY, "--quiet", *(["--strict"] if strict else [])).exit_code == code
