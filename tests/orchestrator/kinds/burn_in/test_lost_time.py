"""Time of a burn-in that does not count as served: how much, why, since when, and what makes up for it."""

from pathlib import Path

import pytest

from orchestrator.figures.burn_in import ReasonReport
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.findings import cell_name
from protocol.cell import Workload
from protocol.failure import Category, Phase
from tests.fakes.burn_ins import FakeBurnIn, of_the_first, soak, ten_minutes
from tests.fakes.runs import cpus

pytestmark = pytest.mark.usefixtures("unsynced")

CUT_OFF, GAPS, LATE, MORE = "cut off", "gaps between them", "launch began late", "no launch followed"
"""What each cause of lost time is called."""
STALLS, FAILURE = "work 0-50, stall 30, stall 40", "work 0-50, fail 90, work 50-52"


def lost(burn_in_run: FakeBurnIn) -> ReasonReport:
    """Why the first device lacks time."""
    gpu = burn_in_run.finished().gpus[0]
    (reason,) = (one for one in gpu.reasons if "at work for" in one.text)
    assert f"{gpu.served_seconds:.0f} s of the 600 s" in reason.text
    return reason


@pytest.mark.parametrize(
    ("script", "cause", "figures"),
    [
        (STALLS, "worker was paused", ("gemm in bf16", "40 s from 2024-01-15T10:", "2 losses")),
        (FAILURE, str(Category.DEADLINE), ("gemm in bf16",)),
        # It counts for the length of a cell, 3 s, and what came before for no more than another gap.
        ("work 0-50, cut 28", CUT_OFF, ("5 s from 2024-01-15T10:",)),
        ("work 0-1, cut 18", CUT_OFF, ()),
        # Longer than an ordinary gap; of what follows the last launch nothing counts.
        ("pause 55, work 0-30", LATE, ("37 s from 2024-01-15T10:30:01Z",)),
        ("work 0-10, pause 55, work 10-30", "no launch was", ("37 s from 2024-01-15T10:30:51Z",)),
        ("work 0-30, pause 75", MORE, ("75 s from 2024-01-15T10:32:31Z",)),
        ("work 0-30, pause 15", MORE, ("15 s from 2024-01-15T10:32:31Z",)),
        # Of a later segment no start counts; of the first one as much as the launches that came of it.
        ("work 0-10, segment, pause 60, work 10-12", LATE, ("62 s from 2024-01-15T10:30:",)),
        ("pause 60, work 0-2", LATE, ("56 s from 2024-01-15T10:30:01Z",)),
        ("work 0-30, segment, pause 100", "before any launch", ("100 s from 2024-01-15T10:32:31Z",)),
        # While the others of its links were at work, until there was no time for these any more.
        ("work 0-30, other 12, drop, pause 6.6", "another device", ("20 s from 20",)),
        ("work 0-30, drop, other 12, pause 6.6", MORE, ("20 s",)),
        ("work 0-30, drop, pause 20", MORE, ("20 s",)),
    ],
)
def test_lost_time_is_named(tmp_path: Path, script: str, cause: str, figures: tuple[str, ...]) -> None:
    """With its cause, its length, its beginning, and the number of times."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.play(script)
    reason = lost(burn_in_run)
    assert [part for part in (cause, *figures) if part not in reason.text] == [], reason.text
    actions = {STALLS: Action.RESUME, FAILURE: Action.AGAIN}  # more time does not undo a failure
    assert reason.action is actions.get(script, reason.action)


def test_time_of_a_suspended_orchestrator_does_not_count(tmp_path: Path) -> None:
    """Though no gap is longer than an ordinary one: it launches nothing meanwhile."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.play("work 0-10, halt 15, work 10-20, halt 15, work 20-30, halt 15, work 30-40")
    text = lost(burn_in_run).text
    assert [
        part
        for part in ("orchestrator was suspended", "15 s from 2024-01-15T10:31:56Z", "3 losses")
        if part not in text
    ] == []
    assert of_the_first(burn_in_run).served_seconds == pytest.approx(40 * 5, abs=1)


def test_gaps_count_for_no_more_than_the_work_between_them(tmp_path: Path) -> None:
    """Each of them is an ordinary one."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m", start_s=9)
    burn_in_run.work()
    text = lost(burn_in_run).text
    assert (GAPS in text, "291 s from 2024-01-15T10:30:10Z" in text) == (True, True), text
    gpu = of_the_first(burn_in_run)
    assert gpu.verdict is HealthVerdict.UNKNOWN
    assert gpu.served_seconds == pytest.approx(2 * 51 * 3 + 3, abs=1)  # and the start


def test_work_of_a_later_segment_makes_up_for_no_gaps(tmp_path: Path) -> None:
    """The time is still missing."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m", start_s=19)
    burn_in_run.work(last=27)
    before_s = of_the_first(burn_in_run).served_seconds
    burn_in_run.segment()
    burn_in_run._start_s = 0
    begin_ns = burn_in_run.now_ns
    burn_in_run.work(last=90)
    assert GAPS in lost(burn_in_run).text
    gpu = of_the_first(burn_in_run)
    assert gpu.verdict is HealthVerdict.UNKNOWN
    assert gpu.served_seconds == pytest.approx(before_s + (burn_in_run.now_ns - begin_ns) / 1e9, abs=1)


def test_a_short_launch_that_was_cut_off_explains_no_gaps(tmp_path: Path) -> None:
    """It took nothing of what is missing."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m", start_s=9)
    burn_in_run.work(last=42)
    burn_in_run.failed(soak(burn_in_run), Category.STOPPED, number=6, phase=Phase.MEASURE, lasted_s=1.0)
    assert GAPS in lost(burn_in_run).text


def test_cells_that_had_no_time_are_told_from_those_that_failed(tmp_path: Path) -> None:
    """More time helps only the first; nor does it help where a device is quarantined."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=1)
    failed = burn_in_run.first(Workload.MEMORY, "cpu:0")
    burn_in_run.failed(failed, Category.EXCEPTION)
    burn_in_run.quarantined("it is gone", device=1)
    burn_in_run.finish(interrupted=True, reason="stopped on request")
    reasons = [one for one in of_the_first(burn_in_run).reasons if "never completed" in one.text]
    without = [one.text for one in reasons if one.action is Action.NOTHING]
    mine = [cell for cell in burn_in_run.stored.plan.cells if "cpu:0" in cell.devices]
    assert len(reasons) == len(mine) - 1  # one launch has a result
    assert [text.split(" never")[0] for text in without] == [
        cell_name(failed),
        cell_name(burn_in_run.first(Workload.LINKS)),
    ]


def test_a_burn_in_that_was_stopped_is_resumed(tmp_path: Path) -> None:
    """Its reason says by what it was stopped, and when."""
    burn_in_run = ten_minutes(tmp_path)
    burn_in_run.work(last=50)
    burn_in_run.finish(interrupted=True, reason="stopped on request")
    gpu = of_the_first(burn_in_run)
    (reason,) = (one for one in gpu.reasons if "cut short" in one.text)
    assert "stopped on request, 2024-01-15T10:" in reason.text
    assert (gpu.action, reason.action) == (Action.RESUME, Action.RESUME)
