"""Results of a burn-in whose files were damaged or deleted since: no PASS without them, and what can be done."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.analysis import reporting
from orchestrator.engine import run
from orchestrator.figures.burn_in import GpuBurnIn
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.state.attempts import Attempt
from orchestrator.state.replay import BURN_IN_RULES, replay
from orchestrator.store import journal
from orchestrator.store.journal import Journal
from orchestrator.store.records import End
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category, Failure, Phase
from tests.fakes.nights import Night, sound
from tests.fakes.runs import cpus

AT = 40
"""A launch in the middle of the night."""


pytestmark = pytest.mark.usefixtures("unsynced")


def a_night(folder: Path, last: int | None = None) -> Night:
    """Ten minutes of two CPU devices; the launches of the plan up to number `last`, and else stopped before."""
    night = Night(folder, cpus(2), "10m")
    night.work(last=last)
    night.finish(interrupted=last is not None, reason="" if last is None else "stopped on request")
    return night


def file_of(night: Night, attempt: Attempt) -> Path:
    """That of its result."""
    return night.archive().folder(attempt).result


def cut_short(path: Path) -> None:
    """Truncate a file."""
    os.truncate(path, 100)


def gpus_of(night: Night) -> tuple[GpuBurnIn, ...]:
    """What is said of each device."""
    found = night.report().burn_in
    assert found is not None
    return found.gpus


@pytest.mark.parametrize(("damage", "told"), [(cut_short, "another hash"), (Path.unlink, "cannot be read")])
def test_a_lost_result_is_no_pass(tmp_path: Path, damage: Callable[[Path], None], told: str) -> None:
    """UNKNOWN for the device that had it, with the file and what to do; the other one is well."""
    night = a_night(tmp_path)
    attempt = night.archive().attempts[AT]
    assert [gpu.verdict for gpu in gpus_of(night)] == [HealthVerdict.PASS, HealthVerdict.PASS]
    damage(file_of(night, attempt))
    mine, other = sorted(gpus_of(night), key=lambda gpu: gpu.gpu_uuid != attempt.start.device)
    (reason,) = mine.reasons
    assert (mine.verdict, mine.action, other.verdict) == (HealthVerdict.UNKNOWN, Action.AGAIN, HealthVerdict.PASS)
    assert reason.text.startswith("a launch has no result any more: ")
    assert f", round {attempt.start.round + 1}, 2024-01-15T10:" in reason.text
    assert f": result lost: {file_of(night, attempt)}: " in reason.text
    assert told in reason.text
    assert reason.text.endswith("; no time is left to measure it again: burn it in again")


def test_the_result_of_several_devices_is_lost_to_all_of_them(tmp_path: Path) -> None:
    """Their links of that round are untested."""
    night = a_night(tmp_path)
    links = {cell.id for cell in night.stored.plan.cells if cell.workload is Workload.LINKS}
    file_of(night, next(one for one in night.archive().attempts if one.start.cell in links)).unlink()
    assert [gpu.verdict for gpu in gpus_of(night)] == [HealthVerdict.UNKNOWN, HealthVerdict.UNKNOWN]


def test_what_was_lost_for_long_is_a_gap_that_is_explained(tmp_path: Path) -> None:
    """Its device was at work then, as far as anybody knows: nothing is told to have been idle without a reason."""
    night = a_night(tmp_path)
    for attempt in night.archive().attempts[20:60]:
        cut_short(file_of(night, attempt))
    for gpu in gpus_of(night):
        texts = [reason.text for reason in gpu.reasons]
        assert any("at work for" in text and " failed: result lost, " in text for text in texts)
        assert not any("nothing tells why" in text for text in texts)


def test_a_result_that_was_lost_explains_no_gap_of_another_device(tmp_path: Path) -> None:
    """Its launch did not fail that night, so that nobody waited for another one."""
    night = Night(tmp_path, cpus(2), "10m")
    order = night.stored.plan.order["cpu:0"]
    cells = {cell.id: cell for cell in night.stored.plan.cells}
    place = next(at for at in range(60, 90) if len(cells[order[at][0]].devices) == 1)
    night.work(last=place)
    cell_id, number = order[place]
    cell = cells[cell_id]
    night.measured(cell, number=number, forward_ms=100.0, blocks=110, iterations=10, verification=sound(cell))
    long_one = night.archive().attempts[-1]
    night.work(first=place + 1)
    night.finish()
    for lost in (False, True):
        if lost:
            file_of(night, long_one).unlink()
        other = next(gpu for gpu in gpus_of(night) if gpu.gpu_uuid == "cpu:1")
        assert other.verdict is HealthVerdict.UNKNOWN
        assert any("nothing tells why" in reason.text for reason in other.reasons)


def lost_again(night: Night, attempt: Attempt) -> None:
    """`resume` has taken the result back."""
    failure = Failure(category=Category.RESULT_LOST, message="not there", phase=Phase.FINISH)
    night._journal = Journal(night.paths.journal)
    night.segment()
    night._journal.append(End(launch=attempt.start.launch, at_ns=night.now_ns, failure=failure))


def test_what_is_lost_of_a_night_that_was_stopped_is_measured_again(tmp_path: Path) -> None:
    """Before all later rounds, as its reason says; after that nothing is left to be said of any device."""
    night = a_night(tmp_path, last=60)
    attempt = night.archive().attempts[AT]
    file_of(night, attempt).write_bytes(b"")
    place = next(at for at, gpu in enumerate(gpus_of(night)) if gpu.gpu_uuid == attempt.start.device)
    (reason,) = (one for one in gpus_of(night)[place].reasons if "no result any more" in one.text)
    assert (reason.action, reason.text[-28:]) == (Action.RESUME, "; `resume` measures it again")
    assert gpus_of(night)[place].action is Action.RESUME
    lost_again(night, attempt)
    now = replay(night.stored.plan, BURN_IN_RULES, journal.read(night.paths.journal)).state
    assert now.devices[attempt.start.device].queue[0] == (attempt.start.cell, attempt.start.round)
    cell = now.cells[attempt.start.cell]
    night.measured(
        cell, number=attempt.start.round, forward_ms=100.0, blocks=3, iterations=10, verification=sound(cell)
    )
    night.work(first=60)
    night.finish()
    assert [(gpu.verdict, gpu.reasons) for gpu in gpus_of(night)] == [(HealthVerdict.PASS, ())] * 2


def test_what_was_not_measured_again_stays_lost(tmp_path: Path) -> None:
    """Also once the journal says so: there was no time for it, and there is none now."""
    night = a_night(tmp_path, last=60)
    attempt = night.archive().attempts[AT]
    file_of(night, attempt).unlink()
    lost_again(night, attempt)
    night.work(first=60)
    night.dropped(next(one for one in night.stored.plan.cells if one.id == attempt.start.cell), "no time", number=9)
    night.finish()
    (reason,) = (reason for gpu in gpus_of(night) for reason in gpu.reasons)
    assert reason.text.endswith("result lost: not there; no time is left to measure it again: burn it in again")


def test_resume_takes_nothing_back_where_no_time_is_left(tmp_path: Path) -> None:
    """It writes the report that holds now; and who puts the file back has the verdict back."""
    night = a_night(tmp_path)
    assert night.paths.report("json").exists() is False
    reporting.write(night.stored, night.paths)
    path = file_of(night, night.archive().attempts[AT])
    before, records = path.read_bytes(), journal.read(night.paths.journal)

    def resumed() -> tuple[Report, bool]:
        assert run.left_to_do(night.stored, night.paths, BURN_IN)[0] == 0
        return reporting.complete(night.stored, night.paths)

    assert resumed()[1] is False
    cut_short(path)
    report, written = resumed()
    assert (written, report.verdict.exit_code) == (True, ExitCode.INCOMPLETE)
    assert "no result any more" in night.paths.report("json").read_text()
    assert journal.read(night.paths.journal) == records
    path.write_bytes(before)
    assert [gpu.verdict for gpu in gpus_of(night)] == [HealthVerdict.PASS, HealthVerdict.PASS]


def test_nobody_is_sent_to_a_resume_that_measures_nothing(invoke: Callable[..., Result], tmp_path: Path) -> None:
    """`report` and `status` leave it to the verdict, which knows of the time."""
    night = a_night(tmp_path / "run")
    folder = str(night.paths.folder)
    reporting.write(night.stored, night.paths)
    file_of(night, night.archive().attempts[AT]).unlink()
    told = invoke("status", folder)
    assert f"Put it back, or `gpubench-orchestrate report {folder}` says whether a burn-in still has" in told.stdout
    made = invoke("report", folder)
    assert made.exit_code == ExitCode.INCOMPLETE
    assert made.stderr.rstrip().endswith("says which, and the verdict of each GPU what to do")
