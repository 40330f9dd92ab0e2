"""What `status` reads of a run in its folder and in the lock of its process. Golden files have the words for it."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator import report
from orchestrator.cli.status import describe, so_far
from orchestrator.cli.watch import _snapshot
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.run_configuration import BurnIn, Isolation
from orchestrator.engine import progress, run_status
from orchestrator.engine.status_types import Standing
from orchestrator.run_reports import reporting
from orchestrator.state.stopping import GENTLE_GRACE_S, GENTLE_S
from orchestrator.state.time_budget import CLOSING_S, Budget, closing_s
from orchestrator.store import run_files
from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import Dropped, Segment, Start, StopRequest, ZygoteStarted
from orchestrator.system import host
from protocol.cell import Cell, Workload
from protocol.failure import Category
from tests.fakes.burn_ins import soak, sound, ten_minutes
from tests.fakes.findings import mismatch
from tests.fakes.runs import FakeRun, gpus
from tests.fakes.standings import held_by, look, reported

TAKEN_UP = {"boot_id": "", "driver_version": None, "tool_version": "", "pid": 1, "wall": 0.0, "served_s": 100.0}
"""Of a segment of a burn-in that had served so much before."""


def test_a_run_that_imports_says_so(tmp_path: Path) -> None:
    """Nothing is launched for ten seconds and more; where launches import for themselves, these are told."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    held_by(run)
    begun_ns = time.monotonic_ns() - 5_000_000_000
    run.segment(now_ns=begun_ns)
    importing_s = look(run).importing_s
    assert importing_s is not None
    assert 5 <= importing_s <= (time.monotonic_ns() - begun_ns) / 1e9
    anew = msgspec.structs.replace(run.stored.configuration, isolation=Isolation.EXEC)
    assert run_status.look(msgspec.structs.replace(run.stored, configuration=anew), run.paths)[0].importing_s is None
    run._journal.append(ZygoteStarted(start_ms=5000, failed={}))
    assert look(run).importing_s is None
    run.failed(run.cell(batch_size=8), Category.ZYGOTE_DIED)
    assert look(run).importing_s is not None, "it is started again"
    run._journal.append(ZygoteStarted(start_ms=5000, failed={}))
    assert look(run).importing_s is None
    run.failed(run.cell(batch_size=8), Category.CRASHED)
    assert look(run).importing_s is None
    run.segment(now_ns=begun_ns)
    run._journal.append(StopRequest(at_ns=begun_ns))
    assert look(run).importing_s is None
    run.segment(now_ns=begun_ns)
    run.paths.lock.write_bytes(b"")
    assert look(run).importing_s is None


def test_a_limit_bounds_what_is_left(tmp_path: Path) -> None:
    """A preset ends in time, whatever its plan would take; the time is counted from the start of the process."""
    run = FakeRun(tmp_path / "run", batch_sizes=tuple(range(1, 400)))
    asked = msgspec.structs.replace(run.stored.configuration, preset="light", time_limit_s=60.0)
    run.store(msgspec.structs.replace(run.stored, configuration=asked))
    run.measured(run.cell(batch_size=1))
    with subprocess.Popen(["sleep", "60"]) as process:
        held_by(run, pid=process.pid, start_ticks=host.start_ticks(process.pid))
        before_s, status, after_s = host.age_s(process.pid), look(run), host.age_s(process.pid)
        run.paths.lock.write_bytes(b"")
        process.kill()
    assert status.limit_left_s is not None
    assert 60 - after_s <= status.limit_left_s <= 60 - before_s
    assert status.eta_s == pytest.approx(status.limit_left_s - CLOSING_S), "and then the reports are written"
    assert status.share == pytest.approx(after_s / 54, abs=0.05)
    assert (look(run).limit_s, look(run).limit_left_s, look(run).eta_s) == (60, None, None)


def burning(run: FakeRun, duration_s: float) -> None:
    """Make a burn-in of it, of so many seconds."""
    asked = BurnIn(duration_s=duration_s, level="quick", cell_s={})
    configuration = msgspec.structs.replace(run.stored.configuration, burn_in=asked, time_limit_s=duration_s)
    run.store(msgspec.structs.replace(run.stored, configuration=configuration))


def first_launch(cell: Cell, at_ns: int) -> Start:
    """Of a segment, before which it imports."""
    return Start(
        launch=9, cell=cell.id, round=0, attempt=2, batch_size=cell.batch_size, device=cell.devices[0], at_ns=at_ns
    )


def test_of_a_burn_in_the_time_is_told_and_no_number_of_launches(tmp_path: Path) -> None:
    """Its plan has more rounds than fit: neither how many there are nor those that were dropped say anything.

    What it served before a `resume` counts, and nothing while that imports.
    """
    run = FakeRun(tmp_path / "run", devices=gpus(1), batch_sizes=(1, 8, 32, 64))
    burning(run, 600.0)
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8))
    assert look(run).share is None, "nobody works on it"
    held_by(run)
    first = look(run)
    with Journal(run.paths.journal) as resumed:
        at_ns, cell = time.monotonic_ns() - 20 * 10**9, run.cell(batch_size=32)
        resumed.append(Segment(**TAKEN_UP, monotonic_ns=at_ns - 40 * 10**9))
        importing = look(run)
        resumed.append(first_launch(cell, at_ns))
        late = run.cell(batch_size=64)
        resumed.append(Dropped(cell=late.id, round=0, at_ns=at_ns, reason="no time was left"))
    status = look(run)
    assert first.limit_left_s == pytest.approx(600.0 - host.age_s(), abs=5.0)
    assert (importing.limit_left_s, importing.eta_s) == (500.0, pytest.approx(500.0 - closing_s(600.0)))
    assert status.limit_left_s == pytest.approx(500.0 - 20.0, abs=5.0)
    assert status.share == pytest.approx(120 / (600 - closing_s(600.0)), abs=0.01)
    assert (status.planned, status.dropped) == (None, 1)
    assert status.share is not None
    shown = _snapshot(run_files.load(run.paths), status, status.share)
    assert (shown.done, shown.total, shown.share) == (2, None, status.share)


@pytest.mark.parametrize("taken_up", [False, True])
def test_from_outside_a_burn_in_stands_where_it_says_itself(tmp_path: Path, taken_up: bool) -> None:
    """Its own share and time left are those of `status`, also where it was gone on with."""
    run = FakeRun(tmp_path / "run", devices=gpus(1), batch_sizes=(1,))
    burning(run, 600.0)
    stored = run_files.load(run.paths)
    run.measured(run.cell())
    held_by(run)
    began = time.monotonic() - host.age_s()
    if taken_up:
        began = time.monotonic() - 30
        with Journal(run.paths.journal) as resumed:
            resumed.append(Segment(**TAKEN_UP, monotonic_ns=round(began * 1e9)))
            resumed.append(first_launch(run.cell(), round((began + 20) * 1e9)))
    starts = began if taken_up else None
    budget = Budget(stored.configuration, stored.devices, 600.0, began - 100 * taken_up, starts=starts)
    budget.first_launch_can_begin(began + 20)
    limited, status = budget.time(time.monotonic()), look(run)
    shown = progress.through(None, None, limited)
    assert shown is not None
    assert status.eta_s == pytest.approx(progress.eta(shown, None), abs=2)
    assert status.share == pytest.approx(progress.share(0, None, limited, shown), abs=0.005)


def test_a_stop_that_was_asked_for_is_told(tmp_path: Path) -> None:
    """Since when, how long it may take at the most, and how it is hurried; whoever goes on later was not asked."""
    run = FakeRun(tmp_path / "run", batch_sizes=tuple(range(1, 400)))
    run.measured(run.cell(batch_size=1))
    held_by(run)
    assert look(run).stop_requested_s is None
    asked_ns = time.monotonic_ns() - 5_000_000_000
    run._journal.append(StopRequest(at_ns=asked_ns))
    status = look(run)
    assert status.stop_requested_s is not None
    assert 5 <= status.stop_requested_s <= (time.monotonic_ns() - asked_ns) / 1e9
    assert status.eta_s == max(GENTLE_S + GENTLE_GRACE_S - status.stop_requested_s, 0.0)
    assert status.standing is Standing.RUNNING
    run._journal.append(StopRequest(at_ns=asked_ns + 3_000_000_000))
    once_more = look(run)
    assert once_more.stops_now
    assert once_more.stop_requested_s is not None
    assert once_more.stop_requested_s >= 5, "since it was asked for the first time"
    assert once_more.eta_s == 0
    run.segment()
    assert not look(run).stops_now
    assert look(run).stop_requested_s is None
    run._journal.append(StopRequest(at_ns=asked_ns))
    run.finish(interrupted=True, reason="stopped on request")  # its process still writes the reports
    assert (look(run).standing, look(run).stop_requested_s is None) == (Standing.RUNNING, False)


def test_a_run_that_is_over_has_its_verdict(tmp_path: Path) -> None:
    """Word, cells and exit code in the line that the run itself ended with; the report is the one in its folder."""
    run = reported(tmp_path / "run")
    published = tmp_path / "report.json"
    published.write_bytes(run.paths.report("json").read_bytes())
    asked = msgspec.structs.replace(run.stored.configuration, output_path=str(published))
    run.store(msgspec.structs.replace(run.stored, configuration=asked))
    told = look(run)
    assert told.outcome is not None
    assert told.outcome.report == str(run.paths.report("json"))
    assert (told.outcome.verdict, told.outcome.exit_code, told.no_outcome) == ("incomplete", 4, "")
    assert (told.outcome.cells.ok, told.outcome.cells.failed) == (1, 1)
    assert re.match("1 of 2 cells .*: failed$", told.outcome.why)
    assert told.reports == (str(published),)
    for reports, own in ((told.reports, False), ((), True)):  # the one in its folder is the same once more
        shown = describe(msgspec.structs.replace(told, reports=reports))
        assert (str(published) in shown, told.outcome.report in shown) == (not own, own)
    published.write_bytes(b"{}")  # a later run's, by now
    assert look(run).reports == (str(run.paths.report("json")),)
    held_by(run)
    assert look(run).outcome is None


@pytest.mark.parametrize(("broken", "lines"), [(False, 1), (True, 0)])
def test_a_run_that_was_stopped_names_its_reports(tmp_path: Path, broken: bool, lines: int) -> None:
    """As one that is over; what broke off may have left an older one, and says its reason once."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.finish(interrupted=True, reason="stopped: disk full", broken=broken)
    made = reporting.make_all(run.paths)
    report.write(made.report, run.paths, ReportFormat, samples=made.samples)
    status = msgspec.structs.replace(look(run), reports=("/data/report.json",))
    told = describe(status).splitlines()
    assert told.count("Report    /data/report.json") == lines
    assert sum("log files" in line for line in told) == 0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:-100]), "is damaged"),
        (lambda file: file.write_bytes(b"\xff"), "is damaged"),
        (lambda file: (file.unlink(), file.mkdir()), "cannot be read: "),
    ],
)
def test_a_report_that_cannot_tell_the_verdict_is_named(
    tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    """By its path."""
    run = reported(tmp_path / "run")
    file = run.paths.report("json")
    spoil(file)
    told = look(run)
    assert told.outcome is None
    assert told.no_outcome.startswith(f"the report {file} {words}")


def test_results_that_are_gone_are_named(tmp_path: Path) -> None:
    """A run that is over is not sound where promised files are not there."""
    run = reported(tmp_path / "run")
    assert look(run).lost == ()
    [file] = run.paths.folder.glob("launches/*/*/result.msgpack")
    file.unlink()
    assert look(run).lost == (str(file),)


def test_a_process_that_is_halted_does_not_run(tmp_path: Path) -> None:
    """SIGSTOP: it is told apart from one that works."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.interrupted(run.cell())
    with subprocess.Popen(["sleep", "60"]) as process:
        held_by(run, pid=process.pid, start_ticks=host.start_ticks(process.pid))
        before = look(run).standing
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        status = look(run)
        process.kill()
    assert (before, status.standing, status.pid) == (Standing.RUNNING, Standing.FROZEN, process.pid)


def test_a_running_burn_in_shows_the_faults_so_far(tmp_path: Path) -> None:
    """Of each device; none once it has ended, because then it has a verdict."""
    burn_in_run = ten_minutes(tmp_path)
    held_by(burn_in_run)
    assert so_far(look(burn_in_run), burn_in_run.stored, burn_in_run.paths) == "no fault found"
    wrong = msgspec.structs.replace(sound(soak(burn_in_run)), mismatches=1, kept=(mismatch(),))
    burn_in_run.work(last=3, verified={(1, Workload.SOAK, 0): wrong})
    found = so_far(look(burn_in_run), burn_in_run.stored, burn_in_run.paths)
    assert [word in found for word in ("FAIL", "cpu:1", "cpu:0")] == [True, True, False]
    assert found in describe(look(burn_in_run), found)
    burn_in_run.finish()
    burn_in_run.paths.lock.write_bytes(b"")
    assert so_far(look(burn_in_run), burn_in_run.stored, burn_in_run.paths) == ""
