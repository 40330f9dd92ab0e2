"""A report of a run that still goes on, or that was killed: it says so, and touches nothing that the run lives on."""

import json
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from orchestrator import report as reports
from orchestrator.analysis import reporting
from orchestrator.analysis.reporting import Made
from orchestrator.cli.commands import orchestrate
from orchestrator.compare.references import Against
from orchestrator.config.run_configuration import ReportFormat, StoredRun
from orchestrator.store import journal, lock
from orchestrator.store.records import Finished
from protocol.messages import Deadlines
from protocol.paths import RunPaths
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.nights import Night
from tests.fakes.node import Node
from tests.fakes.runs import FakeRun, cpus

LONG = Deadlines(start=20, import_=20, build=20, warm_up=200, measure=20, finish=20)


LEFT_ALONE = (
    "note: a process works on the run and writes its report into the folder when it ends, so nothing was written "
    "there; -o FILE writes this one\n"
)


def begun(folder: Path) -> Node:
    """A run of three models: one was measured, one never ends by itself, one waits behind it."""
    # In the order of the plan's seed the second model comes first, and the first one last.
    models = (faults.model("later"), faults.model("good"), faults.model("endless", do="hang"))
    faults.prepare(folder, *models, deadlines=LONG)
    node = Node(folder)
    node.until(lambda: any(path.read_text() == "warm-up" for path in folder.glob("launches/endless*/1/phase")))
    return node


def rendered(node: Node, *options: str) -> dict[str, Any]:
    """What `report` writes to a file outside of the run's folder."""
    place = node.paths.folder.parent / "so-far.json"
    done = python("-m", "orchestrator", "report", str(node.paths.folder), "-o", str(place), *options, cwd=place.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{place}\n"
    report: dict[str, Any] = json.loads(place.read_text()) | {"told": done.stderr}
    return report


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_goes_on_is_reported_as_such(tmp_path: Path) -> None:
    """What is measured is there, what is not is not measured yet, nothing failed, and the run is left alone."""
    node = begun(tmp_path / "run")
    before = contents(node.paths.folder)
    report = rendered(node)
    assert contents(node.paths.folder) == before
    assert (report["metadata"]["running"], report["metadata"]["finished"]) == (True, False)
    assert (report["verdict"]["word"], report["verdict"]["exit_code"]) == ("incomplete", 4)
    assert report["verdict"]["reasons"] == [
        "the run still goes on: this is how far it has come",
        "2 cells of 3 without a result: not measured yet",
    ]
    fates = {cell["model_name"]: (cell["status"], cell["reason"]) for cell in report["cells"]}
    not_yet = ("missing", "not measured yet: the run still goes on")
    assert fates == {"good": ("ok", ""), "endless": not_yet, "later": not_yet}
    assert report["failures"] == []
    assert report["told"] == "note: the run still goes on; 2 cells of 3 not measured yet\n"

    shown = python("-m", "orchestrator", "report", str(node.paths.folder), "-f", "json,txt", cwd=tmp_path)
    assert shown.returncode == 0
    assert "The run still goes on: what has no result here has not been measured yet." in shown.stdout
    assert "Verdict: INCOMPLETE" in shown.stdout
    assert shown.stderr == f"{LEFT_ALONE}{report['told']}"
    assert contents(node.paths.folder) == before

    assert node.process.poll() is None
    node.kill(signal.SIGTERM)
    node.kill(signal.SIGINT)
    assert node.wait() == 4
    assert not node.report()["metadata"]["running"]


def test_a_run_that_was_killed_is_reported_as_such(tmp_path: Path) -> None:
    """Nobody works on it any more: what was under way when it died is told as interrupted."""
    node = begun(tmp_path / "run")
    node.kill(signal.SIGKILL)
    node.wait()
    report = rendered(node)
    assert (report["metadata"]["running"], report["metadata"]["finished"]) == (False, False)
    assert report["verdict"]["word"] == "incomplete"
    assert "its process died or was killed; `resume` goes on with it" in report["verdict"]["reasons"][0]
    assert [(one["model_name"], one["outcome"]) for one in report["failures"]] == [("endless", "interrupted")]
    assert report["told"] == ""
    again = python("-m", "orchestrator", "report", str(node.paths.folder), "-f", "json,txt", cwd=tmp_path)
    assert again.stdout == f"{node.paths.report('json')}\n{node.paths.report('txt')}\n"
    assert (again.returncode, again.stderr) == (0, "")
    assert node.report()["verdict"] == report["verdict"]


@pytest.mark.parametrize("over", [False, True])
def test_the_folder_of_a_run_that_was_taken_up_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, over: bool
) -> None:
    """Killed when `report` read it, and resumed, or even over, when it would write: it prints what it has made."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    make = reporting.make_all
    left: list[dict[str, bytes]] = []

    def overtaken(paths: RunPaths, stored: StoredRun | None = None, held: Against | None = None) -> Made:
        found = make(paths, stored, held)
        if over:
            run.measured(run.cell(batch_size=1))
            run.finish()
            ended = make(paths)
            reports.write(ended.report, paths, ReportFormat, samples=ended.samples)
        else:
            paths.lock.write_bytes(msgspec.json.encode(lock.myself()))
        left.append(contents(paths.folder))
        return found

    monkeypatch.setattr(reporting, "make_all", overtaken)
    shown = CliRunner().invoke(orchestrate, ["report", str(run.paths.folder), "-f", "json,txt"])
    assert (shown.exit_code, shown.stderr) == (0, LEFT_ALONE)
    assert "Verdict: INCOMPLETE" in shown.stdout
    assert contents(run.paths.folder) == left[0]


def test_a_run_is_complete_only_once_that_was_written(tmp_path: Path) -> None:
    """Killed behind its last cell, it has measured all and is over for nobody; `resume` ends it."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    node = Node(folder)
    assert node.wait() == 0, node.output
    with journal.Journal(node.paths.journal) as kept:
        records = kept.recovered
    assert isinstance(records[-1], Finished)
    node.paths.journal.unlink()
    with journal.Journal(node.paths.journal) as shorter:
        for record in records[:-1]:
            shorter.append(record)
    report = rendered(node)
    assert (report["verdict"]["word"], report["summary"]["cells"]["missing"]) == ("incomplete", 0)
    again = Node(folder)
    assert again.wait() == 0, again.output
    assert again.report()["verdict"]["word"] == "complete"
    assert len(again.archive().attempts) == 1


@pytest.mark.parametrize(
    ("launches", "words"),
    [
        (4, "2 cells of 6 not measured yet; 4 cells of 6 measured at least once, with rounds still to be done"),
        (15, "6 cells of 6 measured at least once, with rounds still to be done"),
        (None, "all that is planned so far was done"),
    ],
)
def test_what_is_to_come_of_a_burn_in_is_told(tmp_path: Path, launches: int | None, words: str) -> None:
    """A night in which each cell has a result is not over."""
    night = Night(tmp_path / "run", cpus(1), "10m")
    night.work(last=launches)
    night.paths.lock.write_bytes(msgspec.json.encode(lock.myself()))
    shown = CliRunner().invoke(orchestrate, ["report", str(night.paths.folder), "-o", str(tmp_path / "so-far.txt")])
    assert (shown.exit_code, shown.stderr) == (0, f"note: the run still goes on; {words}\n")
