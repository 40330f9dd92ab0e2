"""Where a run stands, told from its folder: by journals that were written for it, and by locks of real processes."""

import errno
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from orchestrator.cli.watch import _news
from orchestrator.engine import run_status
from orchestrator.engine.status_types import Standing
from orchestrator.errors import RunFolderError
from orchestrator.state.stopping import GENTLE_GRACE_S, GENTLE_S, OUT_OF_TIME
from orchestrator.store import journal, lock, run_files
from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import Finished, Quarantine, Segment, Skipped, StopRequest
from protocol.cell import Mode
from protocol.failure import Category, Phase
from tests.fakes.node import ROOT
from tests.fakes.runs import FakeRun, gpus
from tests.fakes.standings import MYSELF, held_by, look, reported


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    """What is measured, what failed last, what each device does and for how long is still to be done."""
    run = FakeRun(tmp_path / "run", devices=gpus(1), batch_sizes=(1, 8, 32))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.CRASHED, message="killed by SIGSEGV")
    run.interrupted(run.cell(batch_size=32))
    held_by(run)
    status = look(run)
    assert (status.standing, status.pid) == (Standing.RUNNING, os.getpid())
    assert (status.planned, status.measured, status.failed, status.settled) == (3, 1, 0, 1)
    [work] = status.working
    assert (work.device, work.cell, work.batch_size, work.attempt) == ("GPU 0", "resnet50 inference fp32", 32, 1)
    assert status.last_failure.startswith(f"GPU 0  resnet50 inference fp32 b8: {Category.CRASHED}: killed by SIGSEGV")
    ended = [one.lasted_ms for one in run_status.look(run.stored, run.paths)[1] if one.lasted_ms is not None]
    assert status.eta_s == pytest.approx(2 * sum(ended) / len(ended) / 1000), "of one that runs and one that waits"


def test_a_launch_counts_by_its_last_attempt(tmp_path: Path) -> None:
    """A crash is tried once more: a result is no failure then, and a second crash is final."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    crash = f"GPU 0  resnet50 inference fp32 b8: {Category.CRASHED}: SIGSEGV"
    run.failed(run.cell(batch_size=1), Category.CRASHED)
    run.measured(run.cell(batch_size=1))
    for failed in (0, 1):
        run.failed(run.cell(batch_size=8), Category.CRASHED, message="SIGSEGV")
        status = look(run)
        assert (status.measured, status.failed, status.settled) == (1, failed, 1 + failed)
        assert status.last_failure.startswith(crash)
        assert (status.last_failure == crash) is bool(failed), "what is to be tried again says so"


def test_the_failure_of_a_repeated_attempt_is_marked(tmp_path: Path) -> None:
    """While the launch is tried again; with a result it is gone."""
    run = FakeRun(tmp_path / "run", batch_sizes=(8,))
    run.failed(run.cell(batch_size=8), Category.CRASHED, message="killed by SIGSEGV")
    run.interrupted(run.cell(batch_size=8))
    assert look(run).failed == 0
    assert re.search("killed by SIGSEGV .*tried again", look(run).last_failure)
    run.measured(run.cell(batch_size=8))
    assert (look(run).measured, look(run).failed, look(run).last_failure) == (1, 0, "")


@pytest.mark.parametrize("category", [Category.STOPPED, Category.INTERRUPTED])
def test_what_resume_measures_again_has_not_failed(tmp_path: Path, category: Category) -> None:
    """Its launch was ended, or its orchestrator died."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.failed(run.cell(), category)
    status = look(run)
    assert (status.failed, status.settled, status.last_failure) == (0, 0, "")


@pytest.mark.parametrize(("category", "message"), [(Category.STOPPED, OUT_OF_TIME), (Category.CRASHED, "a crash")])
def test_a_launch_that_there_was_no_time_for_is_dropped(tmp_path: Path, category: Category, message: str) -> None:
    """Also once the run is over: ended by the time limit, or not tried again; only the latter has failed before."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.failed(run.cell(batch_size=1), category, message=message)
    run.dropped(run.cell(batch_size=1), "no time was left")
    run.finish()
    status = look(run)
    assert (status.failed, status.dropped) == (0, 1)
    assert ("crashed: a crash" in status.last_failure, bool(status.last_failure)) == (category is Category.CRASHED,) * 2


def test_no_time_is_told_before_every_device_has_ended_something(tmp_path: Path) -> None:
    """Two devices, one of which has ended nothing; once that is taken out the other decides."""
    run = FakeRun(tmp_path / "run", devices=gpus(2), batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    held_by(run)
    assert look(run).eta_s is None
    with Journal(run.paths.journal) as journal:
        journal.append(Quarantine(device=run.stored.devices[1].uuid, at_ns=run.now_ns, reason="memory not freed"))
    assert look(run).quarantined == {"GPU 1": "memory not freed"}
    assert look(run).eta_s is not None


def test_a_limit_is_no_time_that_a_plan_takes(tmp_path: Path) -> None:
    """Before anything has ended, nobody knows how long a plan takes that may be through long before its limit."""
    run = FakeRun(tmp_path / "run", devices=gpus(1), batch_sizes=(1, 8))
    asked = msgspec.structs.replace(run.stored.configuration, preset="triage", time_limit_s=10_000_000.0)
    run.store(msgspec.structs.replace(run.stored, configuration=asked))
    run.interrupted(run.cell(batch_size=1))
    held_by(run)
    status = look(run)
    assert (bool(status.limit_left_s), status.eta_s) == (True, None)
    run._journal.append(StopRequest(at_ns=time.monotonic_ns()))
    stopping = look(run).eta_s
    assert stopping is not None
    assert stopping <= GENTLE_S + GENTLE_GRACE_S


def test_what_is_at_work_is_named_by_what_tells_it_apart(tmp_path: Path) -> None:
    """In both modes each cell is there twice; `watch` and `status` say it as the run itself does."""
    modes = (Mode.LOADED, Mode.SOLO)
    run = FakeRun(tmp_path / "run", devices=gpus(2), batch_sizes=(1,), modes=modes)
    loaded, solo = (next(cell for cell in run.stored.plan.cells if cell.mode is mode) for mode in modes)
    run.failed(loaded, Category.CRASHED)
    run.interrupted(solo)
    held_by(run)
    status, attempts = run_status.look(run_files.load(run.paths), run.paths)
    assert [work.cell for work in status.working] == ["resnet50 inference fp32 solo"]
    assert f"fp32 {Mode.LOADED} b1: {Category.CRASHED}" in status.last_failure
    assert [news.cell for news in _news(run.stored, attempts, set())] == ["resnet50 inference fp32 loaded"]


def test_a_model_that_is_skipped_is_settled(tmp_path: Path) -> None:
    """Nothing more is expected of it, and it takes no time."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8, 32))
    run.failed(run.cell(batch_size=1), Category.IMPORT_ERROR, phase=Phase.IMPORT)
    held_by(run)
    assert look(run).settled == 3
    with Journal(run.paths.journal) as journal:
        journal.append(Skipped(model="resnet50", at_ns=run.now_ns, reason="import error"))
    status = look(run)
    assert (status.failed, status.eta_s, status.skipped) == (3, 0.0, {"resnet50": "import error"})


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        (None, Standing.DIED),
        (Finished(at_ns=1, interrupted=False), Standing.OVER),
        (Finished(at_ns=1, interrupted=True, reason="stopped on request"), Standing.INTERRUPTED),
        (Finished(at_ns=1, interrupted=True, reason="no zygote", broken=True), Standing.BROKEN),
    ],
)
def test_a_run_that_nobody_works_on(tmp_path: Path, finished: Finished | None, expected: Standing) -> None:
    """The journal says how it ended; where it does not, the process died. Nobody works on anything then."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.interrupted(run.cell())
    if finished is not None:
        with Journal(run.paths.journal) as journal:
            journal.append(finished)
    status = look(run)
    assert (status.standing, status.pid, status.working, status.eta_s) == (expected, None, (), None)


def test_without_a_journal_or_a_visible_process_a_run_is_not_dead(tmp_path: Path) -> None:
    """Its process may live in a container that hides it; a folder without a journal is about to begin."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    held_by(run, namespace="pid:[1]", pid=12)
    assert (look(run).standing, look(run).pid) == (Standing.ELSEWHERE, 12)
    run.paths.lock.unlink()
    run.paths.journal.unlink()
    assert look(run).standing is Standing.NOT_BEGUN


def test_the_report_of_an_earlier_end_is_not_this_ones(tmp_path: Path) -> None:
    """Gone on with, and ended without a report: the older one says nothing of that."""
    run = reported(tmp_path / "run")
    records = journal.read(run.paths.journal)
    with Journal(run.paths.journal) as opened:
        opened.append(next(one for one in records if isinstance(one, Segment)))
        opened.append(Finished(at_ns=1, interrupted=True, reason="stopped: disk full", broken=True))
    assert "before a resume" in look(run).no_outcome


def test_a_run_whose_journal_is_gone_has_begun(tmp_path: Path) -> None:
    """Its launches say so: that the journal is missing is an error, as for `report`."""
    run = reported(tmp_path / "run")
    run.paths.journal.unlink()
    with pytest.raises(RunFolderError, match=rf"journal\.gpj: .*: {os.strerror(errno.ENOENT)}.*report\.json"):
        look(run)
    run.paths.journal.touch()
    with pytest.raises(RunFolderError, match="its run"):
        look(run)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, lock.Life.ALIVE),
        ({"start_ticks": MYSELF.start_ticks + 1}, lock.Life.ENDED),
        ({"boot_id": "another"}, lock.Life.ENDED),
        ({"namespace": "pid:[1]"}, lock.Life.ELSEWHERE),
        ({"hostname": "elsewhere", "boot_id": "another"}, lock.Life.ELSEWHERE),
    ],
)
def test_a_process_is_known_by_more_than_its_number(changes: dict[str, object], expected: lock.Life) -> None:
    """Its start time, the boot, the container and the host count; what cannot be seen is not called dead."""
    assert lock.life(msgspec.structs.replace(MYSELF, **changes)) is expected


def test_a_lock_names_its_holder_for_as_long_as_it_is_held(tmp_path: Path) -> None:
    """And looking at it never keeps anybody out."""
    paths = FakeRun(tmp_path / "run", batch_sizes=(1,)).paths
    assert lock.holder(paths) is None
    with lock.held(paths):
        assert lock.holder(paths) == MYSELF
        with pytest.raises(RunFolderError, match=r"another process.*`gpubench-orchestrate stop "):
            lock.held(paths).__enter__()
    assert lock.holder(paths) is None


def test_a_killed_holder_stays_in_the_lock_and_is_known_to_be_gone(tmp_path: Path) -> None:
    """SIGKILL leaves no time to sign off."""
    paths = FakeRun(tmp_path / "run", batch_sizes=(1,)).paths
    source = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom orchestrator.store import lock\n"
        "from protocol.paths import RunPaths\n"
        "with lock.held(RunPaths(Path(sys.argv[1]))): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", source, paths.folder], cwd=ROOT, check=False, timeout=30)
    holder = lock.holder(paths)
    assert holder is not None
    assert lock.life(holder) is lock.Life.ENDED
    with lock.held(paths):
        assert lock.holder(paths) == MYSELF
