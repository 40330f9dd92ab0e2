"""Results of a burn-in whose files were damaged or deleted since: no PASS without them, and what can be done."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.engine import run
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.run_reports import reporting
from orchestrator.state.attempts import Attempt
from orchestrator.state.replay import ROUND_RULES, replay
from orchestrator.store import journal
from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import End
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category, Failure, Phase
from tests.fakes.burn_ins import FakeBurnIn, reasons
from tests.fakes.runs import cpus

AT = 40
"""A launch in the middle of the burn-in."""


pytestmark = pytest.mark.usefixtures("unsynced")


NO_MORE = "launch is lost"
"""What reasons call a launch whose result is lost."""


def verdicts(burn_in_run: FakeBurnIn) -> list[HealthVerdict]:
    """In the order of the devices."""
    return [gpu.verdict for gpu in burn_in_run.chapter().gpus]


def a_burn_in(folder: Path, last: int | None = None) -> FakeBurnIn:
    """Ten minutes of two CPU devices; the launches of the plan up to number `last`, and else stopped before."""
    burn_in_run = FakeBurnIn(folder, cpus(2), "10m")
    burn_in_run.work(last=last)
    burn_in_run.finish(interrupted=last is not None, reason="" if last is None else "stopped on request")
    return burn_in_run


def file_of(burn_in_run: FakeBurnIn, attempt: Attempt) -> Path:
    """That of its result."""
    return burn_in_run.archive().folder(attempt).result


def cut_short(path: Path) -> None:
    """Truncate a file."""
    os.truncate(path, 100)


def test_a_lost_result_is_no_pass(tmp_path: Path) -> None:
    """UNKNOWN for the device that had it, with the round, the time and the file; the other one is healthy."""
    burn_in_run = a_burn_in(tmp_path)
    attempt = burn_in_run.archive().attempts[AT]
    assert verdicts(burn_in_run) == [HealthVerdict.PASS, HealthVerdict.PASS]
    cut_short(file_of(burn_in_run, attempt))
    mine, other = sorted(burn_in_run.chapter().gpus, key=lambda gpu: gpu.gpu_uuid != attempt.start.device)
    (reason,) = mine.reasons
    assert (mine.verdict, mine.action, other.verdict) == (HealthVerdict.UNKNOWN, Action.AGAIN, HealthVerdict.PASS)
    where = f", round {attempt.start.round + 1}, 2024-01-15T10:"
    carried = (NO_MORE, where, f"{Category.RESULT_LOST}: {file_of(burn_in_run, attempt)}: ")
    assert [part for part in carried if part not in reason.text] == []


def test_the_result_of_several_devices_is_lost_to_all_of_them(tmp_path: Path) -> None:
    """Their links of that round are untested."""
    burn_in_run = a_burn_in(tmp_path)
    links = {cell.id for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.LINKS}
    file_of(burn_in_run, next(one for one in burn_in_run.archive().attempts if one.start.cell in links)).unlink()
    assert verdicts(burn_in_run) == [HealthVerdict.UNKNOWN, HealthVerdict.UNKNOWN]


def test_many_lost_results_are_an_explained_gap(tmp_path: Path) -> None:
    """The device was at work then, as far as anybody knows: it was not idle without a reason."""
    burn_in_run = a_burn_in(tmp_path)
    for attempt in burn_in_run.archive().attempts[20:60]:
        cut_short(file_of(burn_in_run, attempt))
    for gpu in burn_in_run.chapter().gpus:
        text = reasons(gpu)
        assert (f"failed: {Category.RESULT_LOST}" in text, "unknown reason" in text) == (True, False)


def test_a_lost_result_explains_no_gap_of_another_device(tmp_path: Path) -> None:
    """Its launch did not fail then, so that nobody waited for another one."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m")
    order = burn_in_run.stored.plan.order["cpu:0"]
    cells = {cell.id: cell for cell in burn_in_run.stored.plan.cells}
    place = next(at for at in range(60, 90) if len(cells[order[at][0]].devices) == 1)
    burn_in_run.work(last=place)
    burn_in_run.one(cells[order[place][0]], order[place][1], blocks=110)
    long_one = burn_in_run.archive().attempts[-1]
    burn_in_run.work(first=place + 1)
    burn_in_run.finish()
    for lost in (False, True):
        if lost:
            file_of(burn_in_run, long_one).unlink()
        other = burn_in_run.chapter().gpus[1]
        assert other.verdict is HealthVerdict.UNKNOWN
        assert "unknown reason" in reasons(other)


def lost_again(burn_in_run: FakeBurnIn, attempt: Attempt) -> None:
    """`resume` has taken the result back."""
    failure = Failure(category=Category.RESULT_LOST, message="not there", phase=Phase.FINISH)
    burn_in_run._journal = Journal(burn_in_run.paths.journal)
    burn_in_run.segment()
    burn_in_run._journal.append(End(launch=attempt.start.launch, at_ns=burn_in_run.now_ns, failure=failure))


def test_a_lost_result_of_a_stopped_burn_in_is_measured_again(tmp_path: Path) -> None:
    """Before all later rounds; after that every device passes."""
    burn_in_run = a_burn_in(tmp_path, last=60)
    attempt = burn_in_run.archive().attempts[AT]
    file_of(burn_in_run, attempt).write_bytes(b"")
    (gpu,) = (gpu for gpu in burn_in_run.chapter().gpus if gpu.gpu_uuid == attempt.start.device)
    (reason,) = (one for one in gpu.reasons if NO_MORE in one.text)
    assert (reason.action, gpu.action) == (Action.RESUME, Action.RESUME)
    lost_again(burn_in_run, attempt)
    now = replay(burn_in_run.stored.plan, ROUND_RULES, journal.read(burn_in_run.paths.journal)).state
    assert now.devices[attempt.start.device].queue[0] == (attempt.start.cell, attempt.start.round)
    burn_in_run.one(now.cells[attempt.start.cell], attempt.start.round)
    burn_in_run.work(first=60)
    assert [(gpu.verdict, gpu.reasons) for gpu in burn_in_run.finished().gpus] == [(HealthVerdict.PASS, ())] * 2


def test_a_result_that_was_not_measured_again_stays_lost(tmp_path: Path) -> None:
    """Also once the journal has it as lost: there was no time for it, and there is none now."""
    burn_in_run = a_burn_in(tmp_path, last=60)
    attempt = burn_in_run.archive().attempts[AT]
    file_of(burn_in_run, attempt).unlink()
    lost_again(burn_in_run, attempt)
    burn_in_run.work(first=60)
    burn_in_run.dropped(
        next(one for one in burn_in_run.stored.plan.cells if one.id == attempt.start.cell), "no time", number=9
    )
    (reason,) = (reason for gpu in burn_in_run.finished().gpus for reason in gpu.reasons)
    assert (f"{Category.RESULT_LOST}: not there" in reason.text, reason.action) == (True, Action.AGAIN)


def test_resume_takes_nothing_back_where_no_time_is_left(tmp_path: Path) -> None:
    """It writes the report that holds now; and who puts the file back has the verdict back."""
    burn_in_run = a_burn_in(tmp_path)
    assert burn_in_run.paths.report("json").exists() is False
    reporting.write(burn_in_run.stored, burn_in_run.paths)
    path = file_of(burn_in_run, burn_in_run.archive().attempts[AT])
    before, records = path.read_bytes(), journal.read(burn_in_run.paths.journal)

    def resumed() -> tuple[Report, bool]:
        assert run.left_to_do(burn_in_run.stored, burn_in_run.paths, BURN_IN)[0] == 0
        return reporting.complete(burn_in_run.stored, burn_in_run.paths)

    assert resumed()[1] is False
    cut_short(path)
    report, written = resumed()
    assert (written, report.verdict.exit_code) == (True, ExitCode.INCOMPLETE)
    assert NO_MORE in burn_in_run.paths.report("json").read_text()
    assert journal.read(burn_in_run.paths.journal) == records
    path.write_bytes(before)
    assert verdicts(burn_in_run) == [HealthVerdict.PASS, HealthVerdict.PASS]


def test_nobody_is_sent_to_a_resume_that_measures_nothing(invoke: Callable[..., Result], tmp_path: Path) -> None:
    """`report` and `status` leave it to the verdict, which knows of the time."""
    burn_in_run = a_burn_in(tmp_path / "run")
    folder = str(burn_in_run.paths.folder)
    reporting.write(burn_in_run.stored, burn_in_run.paths)
    file_of(burn_in_run, burn_in_run.archive().attempts[AT]).unlink()
    assert f"report {folder}`" in invoke("status", folder).stdout
    made = invoke("report", folder)
    assert made.exit_code == ExitCode.INCOMPLETE
    assert "resume" not in made.stderr
