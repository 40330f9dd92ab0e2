"""Results that a truncated journal does not know, and damaged results."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from orchestrator.engine import run_status
from orchestrator.run_reports import reporting
from orchestrator.state import archive
from orchestrator.store import journal, lock, run_files
from orchestrator.store.records import Record
from protocol.exit_codes import ExitCode
from tests.fakes.runs import FakeRun

Invoke = Callable[..., Result]


def stopped(folder: Path) -> FakeRun:
    """A stopped run with its report: three of four cells are measured."""
    run = FakeRun(folder, batch_sizes=(1, 2, 4, 8))
    for batch_size in (1, 2, 4):
        run.measured(run.cell(batch_size=batch_size))
    run.finish(interrupted=True, reason="stopped on request")
    reporting.write(run.stored, run.paths)
    return run


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


READERS = {
    "report": ("report", "RUN"),
    "report elsewhere": ("report", "RUN", "-o", "elsewhere.json", "--history"),
    "status": ("status", "RUN"),
    "status for programs": ("status", "RUN", "--json"),
    "watch": ("watch", "RUN"),
    "explain": ("explain", "RUN"),
    "compare": ("compare", "SOUND", "RUN"),
    "make-baseline": ("make-baseline", "RUN", "-o", "baseline.json"),
    "resume": ("resume", "RUN"),
}


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_results_unknown_to_the_journal_are_refused_by_every_command(
    invoke: Invoke, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """With the same advice; the earlier report stays, and nothing is written."""
    run, sound = stopped(tmp_path / "run"), stopped(tmp_path / "sound")
    whole = run.paths.journal.read_bytes()
    for cut, lost in ((whole.rindex(b"\xa5Start"), 1), (whole.index(b"\xa5Start") + 1, 3)):
        os.truncate(run.paths.journal, cut)
        before = contents(tmp_path)
        named = {"RUN": str(run.paths.folder), "SOUND": str(sound.paths.folder)}
        refused = invoke(*(named.get(word, word) for word in words))
        assert refused.exit_code == ExitCode.USAGE
        assert f"{run.paths.journal} is missing, empty or cut short: launches/ holds results that it" in refused.stderr
        assert f"({lost} of 3, the first in {run.paths.launches}/" in refused.stderr
        assert f"Put a sound journal.gpj of this run back: then `gpubench-orchestrate report {run.paths.folder}`" in (
            refused.stderr
        )
        assert f"The report that was made before is still there: {run.paths.report('json')}" in refused.stderr
        assert (contents(tmp_path), refused.stdout) == (before, "")
    run.paths.journal.write_bytes(whole)
    assert invoke("report", str(run.paths.folder)).exit_code == ExitCode.PASSED


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
        assert made.stderr.startswith("warning: missing or damaged, and so not in this report: 1 result that the")
        assert f"`gpubench-orchestrate resume {folder}` measures again" in made.stderr
    told = json.loads(run.paths.report("json").read_text())
    assert (told["verdict"]["exit_code"], told["summary"]["cells"]["failed"]) == (ExitCode.INCOMPLETE, 1)
    assert invoke("watch", folder).exit_code == ExitCode.INCOMPLETE
    explained = "".join(invoke("explain", folder).stdout.split())  # a long path is folded
    assert "result.msgpack" in explained
