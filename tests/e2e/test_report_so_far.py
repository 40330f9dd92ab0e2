"""A report of a run that still goes on, or that was killed: it says so, and touches nothing that the run lives on."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from orchestrator import report as reports
from orchestrator.cli.commands import orchestrate
from orchestrator.compare.references import Against
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.run_configuration import StoredRun
from orchestrator.run_reports import reporting
from orchestrator.run_reports.reporting import Made
from orchestrator.store import journal, lock
from orchestrator.store.journal_records import Finished
from protocol.messages import Deadlines
from protocol.paths import RunPaths
from tests.fakes import faults
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.node import Node, start
from tests.fakes.runs import FakeRun, cpus

LONG = Deadlines(start=20, import_=20, build=20, warm_up=200, measure=20, finish=20)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def call(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(orchestrate, ["report", str(folder), *options])


def rendered(folder: Path) -> tuple[dict[str, Any], str]:
    """What `report` writes to a file outside of the run's folder, and what it says."""
    place = folder.parent / "so-far.json"
    done = call(folder, "-o", str(place))
    assert (done.exit_code, done.stdout) == (0, f"{place}\n"), done.stderr
    return json.loads(place.read_text()), done.stderr


def test_a_run_that_goes_on_or_was_killed_is_reported_as_such(tmp_path: Path) -> None:
    """While it goes on, nothing has failed and its folder is left alone. Once killed, its launch is interrupted."""
    folder = tmp_path / "run"
    # In the order of the plan's seed the second model comes first, and the first one last.
    models = (faults.model("later"), faults.model("good"), faults.model("endless", do="hang"))
    node = start(folder, *models, deadlines=LONG)
    node.until(lambda: any(path.read_text() == "warm-up" for path in folder.glob("launches/endless*/1/phase")))
    before = contents(folder)
    report, note = rendered(folder)
    assert (report["metadata"]["running"], report["metadata"]["finished"]) == (True, False)
    assert (report["verdict"]["word"], report["verdict"]["exit_code"]) == ("incomplete", 4)
    status = {cell["model_name"]: cell["status"] for cell in report["cells"]}
    assert status == {"good": "ok", "endless": "missing", "later": "missing"}
    assert report["failures"] == []
    assert "2 cells of 3" in note
    shown = call(folder, "-f", "json,txt")
    assert (shown.exit_code, "RESULT    INCOMPLETE" in shown.stdout) == (0, True)
    assert contents(folder) == before
    assert node.process.poll() is None
    node.kill()
    report, note = rendered(folder)
    assert (report["metadata"]["running"], report["metadata"]["finished"]) == (False, False)
    assert report["verdict"]["word"] == "incomplete"
    assert [(one["model_name"], one["outcome"]) for one in report["failures"]] == [("endless", "interrupted")]
    assert note == ""
    again = call(folder, "-f", "json,txt")
    assert again.stdout == f"{node.paths.report('json')}\n{node.paths.report('txt')}\n"
    assert (again.exit_code, again.stderr) == (0, "")
    assert node.report()["verdict"] == report["verdict"]


@pytest.mark.parametrize("over", [False, True])
def test_the_folder_of_a_run_that_was_resumed_meanwhile_is_left_alone(
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
    shown = call(run.paths.folder, "-f", "json,txt")
    assert (shown.exit_code, "RESULT    INCOMPLETE" in shown.stdout) == (0, True)
    assert "-o FILE" in shown.stderr
    assert contents(run.paths.folder) == left[0]


def test_a_run_is_complete_only_once_that_was_written(tmp_path: Path) -> None:
    """Killed behind its last cell, it has measured all and is over for nobody; `resume` ends it."""
    folder = tmp_path / "run"
    node = start(folder, faults.model("good"))
    node.ended()
    with journal.Journal(node.paths.journal) as kept:
        records = kept.recovered
    assert isinstance(records[-1], Finished)
    node.paths.journal.unlink()
    with journal.Journal(node.paths.journal) as shorter:
        for record in records[:-1]:
            shorter.append(record)
    report, _ = rendered(folder)
    assert (report["verdict"]["word"], report["summary"]["cells"]["missing"]) == ("incomplete", 0)
    again = Node(folder)
    assert again.ended()["verdict"]["word"] == "complete"
    assert len(again.archive().attempts) == 1


@pytest.mark.parametrize(("launches", "missing"), [(4, True), (15, False), (None, None)])
def test_what_is_to_come_of_a_burn_in_is_told(tmp_path: Path, launches: int | None, missing: bool | None) -> None:
    """A burn-in in which each cell has a result is not over."""
    burn_in_run = FakeBurnIn(tmp_path / "run", cpus(1), "10m")
    burn_in_run.work(last=launches)
    burn_in_run.paths.lock.write_bytes(msgspec.json.encode(lock.myself()))
    shown = call(burn_in_run.paths.folder, "-o", str(tmp_path / "so-far.txt"))
    counts = re.findall(r"(\d+) cells of (\d+) (not measured|measured)", shown.stderr)
    planned = len(burn_in_run.stored.plan.cells)
    assert shown.exit_code == 0
    assert [words for *_, words in counts] == ["not measured"] * bool(missing) + ["measured"] * (missing is not None)
    assert not counts or sum(int(count) for count, _, _ in counts) == planned == int(counts[0][1])
