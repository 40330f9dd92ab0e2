"""Damaged results, and runs without records. Other damage: tests/golden/transcripts/damaged.txt."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from orchestrator.engine import run_status
from orchestrator.state import archive
from orchestrator.store import journal, lock, run_files
from orchestrator.store.journal import MAGIC
from orchestrator.store.journal_records import Record
from protocol.exit_codes import ExitCode
from tests.fakes.runs import FakeRun

Invoke = Callable[..., Result]


@pytest.mark.parametrize("held", [True, False])
def test_a_result_without_its_end_is_no_damage(invoke: Invoke, tmp_path: Path, *, held: bool) -> None:
    """The file precedes its End, in a running run and after a kill."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    attempt = run.interrupted(run.cell())
    (start,) = [one.start for one in run.archive().attempts if one.start.launch == attempt]
    result = run.paths.launch(start.cell, start.attempt).result
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_bytes(b"whole")
    if held:
        run.paths.lock.write_bytes(msgspec.json.encode(lock.myself()))
    for command in ("report", "status", "explain"):
        assert invoke(command, str(run.paths.folder)).exit_code == ExitCode.PASSED
    archive.require_own_journal(run.stored, run.paths)


@pytest.mark.parametrize(
    "reader",
    [
        lambda run: archive.load(run.paths),
        lambda run: run_status.look(run.stored, run.paths),
        lambda run: archive.require_own_journal(run.stored, run.paths),
    ],
    ids=["archive", "standing", "taking up"],
)
def test_results_written_while_reading_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Callable[[FakeRun], object]
) -> None:
    """A launch may begin and end behind the last record that was read."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    assert run_files.load(run.paths) == run.stored
    read = journal.read
    came: list[int] = []

    def overtaken(path: Path) -> tuple[Record, ...]:
        records = read(path)
        came.append(run.measured(run.cell(batch_size=8)))
        return records

    monkeypatch.setattr(journal, "read", overtaken)
    reader(run)
    assert came
    assert len(list(run.paths.results())) == 2


def test_a_damaged_result_is_a_cell_without_a_result(invoke: Invoke, tmp_path: Path) -> None:
    """The report, its exit code and that of `watch` say so."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.everything()
    run.finish()
    folder = str(run.paths.folder)
    sound = invoke("report", folder)
    assert (sound.exit_code, sound.stderr) == (ExitCode.PASSED, "")
    os.truncate(run.paths.launch(run.cell(batch_size=8).id, 1).result, 3)
    for place in (("-o", str(tmp_path / "so-far.json")), ()):
        made = invoke("report", folder, *place)
        assert made.exit_code == ExitCode.INCOMPLETE
        assert re.match(rf"warning: .*1 result .*`gpubench-orchestrate resume {folder}`", made.stderr)
    told = json.loads(run.paths.report("json").read_text())
    assert (told["verdict"]["exit_code"], told["summary"]["cells"]["failed"]) == (ExitCode.INCOMPLETE, 1)
    assert invoke("watch", folder).exit_code == ExitCode.INCOMPLETE
    explained = "".join(invoke("explain", folder).stdout.split())  # a long path is folded
    assert "result.msgpack" in explained


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_without_records_can_be_resumed(invoke: Invoke, tmp_path: Path, begun: bool) -> None:
    """Killed before its first record, it is not damaged."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.paths.journal.unlink()
    if begun:
        run.paths.journal.write_bytes(MAGIC)
    refused = invoke("report", str(run.paths.folder))
    assert (refused.exit_code, f"resume {run.paths.folder}" in refused.stderr) == (ExitCode.USAGE, True)
