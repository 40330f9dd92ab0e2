"""Files of a report that the disk refuses: the others are written, and a later process writes what is missing."""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.cli.status import describe
from orchestrator.config.report_formats import ALWAYS, ReportFormat
from orchestrator.engine import run_status
from orchestrator.errors import StorageError
from orchestrator.report import files
from orchestrator.run_reports import reporting
from orchestrator.store import report_places
from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import Finished, Segment
from protocol.paths import RunPaths
from tests.fakes.runs import FakeRun


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    """A run that is over, and has no report yet. It wants a page and a table at -o."""
    made = FakeRun(tmp_path / "run", batch_sizes=(1,))
    made.measured(made.cell(batch_size=1))
    made.finish()
    output = str(tmp_path / "out" / "report.html")
    formats = (ReportFormat.HTML, ReportFormat.CSV)
    asked = msgspec.structs.replace(made.stored.configuration, output_path=output, formats=formats)
    made.store(msgspec.structs.replace(made.stored, configuration=asked))
    return made


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is written, in this order; names in `refused` are not."""
    order: list[Path] = []
    write = files.write_parts_durably

    def noted(path: Path, parts: Iterable[bytes], **how: Any) -> None:
        write(path, parts, **how)
        order.append(path)

    monkeypatch.setattr(files, "write_parts_durably", noted)
    return order


def refuse(monkeypatch: pytest.MonkeyPatch, places_full: Collection[Path]) -> None:
    """Have a disk that has no room for some files."""
    write = files.write_parts_durably

    def full(path: Path, parts: Iterable[bytes], **how: Any) -> None:
        if path in places_full:
            raise StorageError(f"{path}: full")
        write(path, parts, **how)

    monkeypatch.setattr(files, "write_parts_durably", full)


def rendered(paths: RunPaths) -> set[Path]:
    """The files of the report that are in the run's folder."""
    return {paths.report(kind) for kind in ReportFormat if paths.report(kind).exists()}


def test_the_most_important_is_written_first_and_each_where_it_is_wanted_before_the_run(
    run: FakeRun, written: list[Path]
) -> None:
    """JSON, which has everything, then what people read, then the page; that at -o before the one in the folder."""
    reporting.write(run.stored, run.paths)
    csv, page = report_places.published(run.stored, run.paths)[::-1]
    own = {kind: run.paths.report(kind) for kind in ALWAYS}
    expected = [own[ReportFormat.JSON], own[ReportFormat.TXT], csv, own[ReportFormat.CSV], page, own[ReportFormat.HTML]]
    assert written == expected
    assert set(files.by_importance(ReportFormat)) == set(ReportFormat)


def test_one_that_is_refused_keeps_no_other_from_being_written(run: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal is told; an older file of its name is gone, and so are no others."""
    json, page = run.paths.report(ReportFormat.JSON), run.paths.report(ReportFormat.HTML)
    table = report_places.published(run.stored, run.paths)[1]
    json.write_text("of long ago")
    refuse(monkeypatch, {json, page, table})
    with pytest.raises(reporting.UnwrittenError) as raised:
        reporting.write(run.stored, run.paths)
    assert str(raised.value).split("; ") == [f"{path}: full" for path in (json, page, table)]
    assert raised.value.copies_alone is False
    assert raised.value.published == [report_places.published(run.stored, run.paths)[0]]
    assert rendered(run.paths) == {run.paths.report(ReportFormat.TXT), run.paths.report(ReportFormat.CSV)}
    assert report_places.unwritten(run.stored, run.paths) == (json, page, table)


def test_what_is_missing_is_written_later_and_nothing_else(
    run: FakeRun, monkeypatch: pytest.MonkeyPatch, written: list[Path]
) -> None:
    """Also where it is missing at -o alone; when all is there, nothing is written."""
    page, copy = run.paths.report(ReportFormat.HTML), report_places.published(run.stored, run.paths)[1]
    with monkeypatch.context() as full:
        refuse(full, {page, copy})
        with pytest.raises(reporting.UnwrittenError):
            reporting.write(run.stored, run.paths)
    status = run_status.look(run.stored, run.paths)[0]
    assert status.unwritten == (str(page), str(copy))
    assert f"{page}, {copy}; `gpubench-orchestrate resume" in describe(status)
    written.clear()
    report, mended = reporting.complete(run.stored, run.paths)
    assert (mended, written) == (True, [copy, page])
    assert report.summary.cells.ok == 1
    written.clear()
    assert reporting.complete(run.stored, run.paths)[1] is False
    assert written == []
    assert run_status.look(run.stored, run.paths)[0].unwritten == ()


def test_a_report_of_before_the_end_is_made_again_whole(run: FakeRun, written: list[Path]) -> None:
    """Its process was killed before it wrote that of the end: no file beside it is trusted."""
    reporting.write(run.stored, run.paths)
    written.clear()
    with Journal(run.paths.journal) as journal:
        now_ns = run.now_ns + 10**9
        segment = Segment(
            boot_id=run.boot_id, driver_version=None, tool_version="1", pid=1, wall=1.0, monotonic_ns=now_ns
        )
        journal.append(segment)
        journal.append(Finished(at_ns=now_ns + 10**9, interrupted=False))
    assert reporting.complete(run.stored, run.paths)[1] is True
    assert {run.paths.report(kind) for kind in ALWAYS} < set(written)


def test_what_lies_in_a_folder_that_is_closed_to_us_is_not_said_to_be_missing(
    run: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be known."""

    def closed(path: Path) -> bool:
        raise PermissionError(13, os.strerror(13), path)

    monkeypatch.setattr(
        Path, "exists", lambda path: closed(path) if path.parent.name == "out" else os.path.lexists(path)
    )
    assert {path.parent for path in report_places.unwritten(run.stored, run.paths)} == {run.paths.folder}
