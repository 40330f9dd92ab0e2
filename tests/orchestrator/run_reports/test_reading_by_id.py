"""Runs that are named by their ids: the history knows their folders, and says so where they are gone."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from orchestrator.errors import ConfigError, HistoryError, RunFolderError
from orchestrator.history import entry
from orchestrator.run_reports import report_reader, reporting
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from tests.fakes import histories
from tests.fakes.commands import TINY
from tests.fakes.histories import run_id
from tests.fakes.runs import FakeRun

Invoke = Callable[..., Result]

LATER = "20260403-220000-000000"
"""Another run of the third day."""


def measured(folder: Path, forward_ms: float) -> FakeRun:
    """A run that is over."""
    run = FakeRun(folder, run_id=folder.name, workloads=(Workload.INFERENCE,), batch_sizes=(1,), launches=3)
    for number in range(3):
        run.measured(run.cell(batch_size=1), number=number, forward_ms=forward_ms + 0.001 * number)
    run.finish()
    reporting.write(run.stored, run.paths)
    return run


@pytest.fixture
def runs(tmp_path: Path) -> list[FakeRun]:
    """Two runs of different days, far from the current folder; the second is a tenth slower."""
    return [measured(tmp_path / "far" / run_id(number), 9.0 + number) for number in (1, 2)]


@pytest.fixture
def history(tmp_path: Path, runs: list[FakeRun]) -> str:
    """The history that knows them."""
    made = [entry.of_report(run.report(), run.paths.folder, tainted=False) for run in runs]
    named = [
        msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, run_id=run_id(number)))
        for number, one in enumerate(made, 1)
    ]
    others = [histories.record(3), histories.record(3, run_id=LATER, test_date="2026-04-03T22:00:00Z")]
    return str(histories.kept(tmp_path / "kept", [*named, *others]).path)


def test_a_run_is_found_by_its_id(runs: list[FakeRun], history: str) -> None:
    """The whole one or a unique beginning, also as a baseline: it is what its folder would be."""
    for name in (run_id(2), run_id(2)[:8]):
        expected = report_reader.read(str(runs[1].paths.folder), "runs").cells
        found = report_reader.read(name, "runs", history)
        assert (found.name, found.cells) == (name, expected)
        assert report_reader.baseline(name, "runs", history).cells == expected
    assert report_reader.read(run_id(1), "runs", history).cells != expected


def test_a_file_is_no_id(runs: list[FakeRun], history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of such a name is meant before any history is asked."""
    monkeypatch.chdir(tmp_path)
    Path(run_id(2)).write_bytes(runs[0].paths.report("json").read_bytes())
    first = report_reader.read(str(runs[0].paths.folder), "runs").cells
    assert report_reader.read(run_id(2), "runs", history).cells == first


def test_what_the_history_cannot_give_is_said(runs: list[FakeRun], history: str, tmp_path: Path) -> None:
    """A folder that was moved, with what to do; ids that nobody knows, or that mean several; no history at all."""
    runs[0].paths.folder.rename(tmp_path / "moved")
    with pytest.raises(RunFolderError) as gone:
        report_reader.read(run_id(1), "runs", history)
    for words in (run_id(1), str(runs[0].paths.folder)):
        assert words in str(gone.value)
    for name, kind, words in (
        (run_id(1)[:11], RunFolderError, "no longer"),
        (run_id(3)[:9], HistoryError, f"this id: {LATER}, {run_id(3)}"),
        (run_id(1)[:7], ConfigError, "no file"),
    ):
        with pytest.raises(kind, match=words) as caught:
            report_reader.read(name, "runs", history)
        assert str(caught.value).endswith(f" {history}") == (kind is HistoryError)
    with pytest.raises(HistoryError, match=r"none\.db"):
        report_reader.read(run_id(1), "runs", str(tmp_path / "none.db"))


@pytest.mark.parametrize("by_history", [True, False])
def test_commands_find_the_run_of_an_id(
    invoke: Invoke, runs: list[FakeRun], history: str, tmp_path: Path, by_history: bool
) -> None:
    """In the history that was named, or in the runs folder without any: `make-baseline` and --compare-baseline."""
    where = ("--history-db", history) if by_history else ("--runs-folder", str(tmp_path / "far"))
    assert invoke("make-baseline", run_id(1), "-o", "made.json", *where).exit_code == 0
    report = ("report", str(runs[1].paths.folder), "-o", "held.txt", "--compare-baseline", run_id(1))
    assert invoke(*report, *where).exit_code == 0
    assert "90.9" in Path("held.txt").read_text()
    planned = (*TINY, "--dry-run", "--compare-baseline", run_id(1))
    assert invoke(*planned, *where).exit_code == 0
    assert invoke(*planned).exit_code == invoke(*report).exit_code == ExitCode.USAGE
    ended = invoke("compare", run_id(1), run_id(2), *where)
    assert (ended.exit_code, "SLOWER" in ended.stdout) == (ExitCode.MISSED, True)


def test_a_configuration_file_names_the_history_too(invoke: Invoke, history: str) -> None:
    """As --history-db does."""
    Path("mine.yaml").write_text(f"history: {{file: {history}}}\n")
    assert invoke(*TINY, "--dry-run", "--compare-baseline", run_id(1), "--config", "mine.yaml").exit_code == 0
