"""Which time of a burn-in was not served: each device is told how much it lacks, why, and what makes up for it."""

from pathlib import Path

import pytest

from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.findings import named
from orchestrator.store.records import StoodStill
from protocol.cell import Workload
from protocol.failure import Category, Phase
from tests.fakes.nights import Night, of_the_first, soak, stalled, ten_minutes
from tests.fakes.runs import SECOND_NS, cpus

pytestmark = pytest.mark.usefixtures("unsynced")


def words(night: Night) -> str:
    """Why the first device lacks time."""
    night.finish()
    gpu = of_the_first(night)
    (text,) = (one.text for one in gpu.reasons if "at work for" in one.text)
    assert f"at work for {gpu.served_seconds:.0f} s of the 600 s asked for: " in text
    return text


def test_a_stall_is_named(tmp_path: Path) -> None:
    """With what stood still, since when, and what to do."""
    night = ten_minutes(tmp_path)
    night.work(last=50)
    stalled(night, 30.0)
    stalled(night, 40.0)
    text = words(night)
    assert "a worker stood still in verified products of gemm in bf16, 40 s from 2024-01-15T10:" in text
    assert ", the longest of 2 times, the first of them 2024-01-15T10:" in text
    assert text.endswith("; `gpubench-orchestrate resume` goes on until it has its time")
    assert of_the_first(night).action is Action.RESUME


def test_a_launch_that_failed_is_named(tmp_path: Path) -> None:
    """And as its failure is a finding that stays, more time alone does not help."""
    night = ten_minutes(tmp_path)
    night.work(last=50)
    night.failed(soak(night), Category.DEADLINE, number=9, phase=Phase.MEASURE, lasted_s=90.0)
    night.work(first=50, last=52)
    text = words(night)
    assert "a launch of verified products of gemm in bf16 failed: deadline exceeded, " in text
    assert text.endswith(
        "; `resume` makes up for the time, and of what else is UNKNOWN here for want of memory at most: begin again"
    )


def test_a_launch_that_was_cut_off_is_named(tmp_path: Path) -> None:
    """It counts for the length of a cell, three seconds, and of what came before no more than of another gap."""
    night = ten_minutes(tmp_path)
    night.work(last=50)
    night.failed(soak(night), Category.STOPPED, number=9, phase=Phase.MEASURE, message="asked to stop", lasted_s=28.0)
    assert "a launch was cut off, which counts for the length of a cell, 5 s from 2024-01-15T10:" in words(night)


@pytest.mark.parametrize(
    ("pause_at", "pause_s", "told"),
    [
        (0, 55, "the first launch began late, 37 s from 2024-01-15T10:30:01Z on"),
        (10, 55, "nothing was launched, 37 s from 2024-01-15T10:30:51Z on"),
        (30, 75, "nothing more was launched, 75 s from 2024-01-15T10:32:31Z on"),
        (30, 15, "nothing more was launched, 15 s from 2024-01-15T10:32:31Z on"),
    ],
)
def test_a_gap_a_late_start_and_an_early_end_are_named(tmp_path: Path, pause_at: int, pause_s: int, told: str) -> None:
    """What of them is longer than an ordinary gap, and all of what follows the last launch: nothing of that counts."""
    night = ten_minutes(tmp_path)
    night.work(last=pause_at)
    night.now_ns += pause_s * SECOND_NS
    night.work(first=pause_at, last=30)
    assert told in words(night)


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (10, "the first launch began late, 62 s from 2024-01-15T10:30:"),  # of a later segment no start counts
        (0, "the first launch began late, 56 s from 2024-01-15T10:30:01Z on"),  # two launches came of the first one
    ],
)
def test_of_a_late_start_all_that_does_not_count_is_told(tmp_path: Path, first: int, told: str) -> None:
    """By the same rule by which it counts as served."""
    night = ten_minutes(tmp_path)
    night.work(last=first)
    if first:
        night.segment()
    night.now_ns += 60 * SECOND_NS
    night.work(first=first, last=first + 2)
    assert told in words(night)


def test_a_night_that_is_mostly_gaps_is_told_so(tmp_path: Path) -> None:
    """Each of them is an ordinary one, and all together count for no more than the work between them."""
    night = Night(tmp_path, cpus(2), "10m", start_s=9)
    night.work()
    assert "launches were at work for less than the gaps between them, 291 s from 2024-01-15T10:30:10Z on" in words(
        night
    )
    gpu = of_the_first(night)
    assert gpu.verdict is HealthVerdict.UNKNOWN
    assert gpu.served_seconds == pytest.approx(2 * 51 * 3 + 3, abs=1)  # and the start


def test_time_that_was_mostly_gaps_is_no_credit_for_who_goes_on_with_the_night(tmp_path: Path) -> None:
    """Work of another segment does not make up for it: it is told, and the time is still missing."""
    night = Night(tmp_path, cpus(2), "10m", start_s=19)
    night.work(last=27)
    before_s = of_the_first(night).served_seconds
    night.segment()
    night._start_s = 0
    begin_ns = night.now_ns
    night.work(last=90)
    assert "launches were at work for less than the gaps between them, " in words(night)
    gpu = of_the_first(night)
    assert gpu.verdict is HealthVerdict.UNKNOWN
    assert gpu.served_seconds == pytest.approx(before_s + (night.now_ns - begin_ns) / 1e9, abs=1)


def test_a_launch_that_was_cut_off_is_named_where_little_else_was_at_work(tmp_path: Path) -> None:
    """Something was at work in it, of which nothing counts but the length of a cell: that is no gap."""
    night = ten_minutes(tmp_path)
    night.work(last=1)
    night.failed(soak(night), Category.STOPPED, number=9, phase=Phase.MEASURE, message="asked to stop", lasted_s=18.0)
    assert "a launch was cut off, which counts for the length of a cell, " in words(night)


def test_a_launch_that_was_cut_off_is_not_why_a_night_was_mostly_gaps(tmp_path: Path) -> None:
    """It took nothing of what is missing."""
    night = Night(tmp_path, cpus(2), "10m", start_s=9)
    night.work(last=42)
    night.failed(soak(night), Category.STOPPED, number=6, phase=Phase.MEASURE, message="asked to stop", lasted_s=1.0)
    assert "launches were at work for less than the gaps between them, " in words(night)


def test_an_orchestrator_that_stood_still_is_named_and_that_time_does_not_count(tmp_path: Path) -> None:
    """Though no gap is longer than an ordinary one; it makes no launch meanwhile."""
    night = ten_minutes(tmp_path)
    night.work(last=10)
    for at in (10, 20, 30):
        night.now_ns += 15 * SECOND_NS
        night._journal.append(StoodStill(at_ns=night.now_ns, seconds=15.0))
        night.work(first=at, last=at + 10)
    assert "the orchestrator stood still, 15 s from 2024-01-15T10:31:56Z on, the longest of 3 times, " in words(night)
    assert of_the_first(night).served_seconds == pytest.approx(40 * 5, abs=1)


def test_cells_that_had_no_time_are_told_from_those_that_failed(tmp_path: Path) -> None:
    """The first need more of it, which helps the others nothing; nor does it where a device is out."""
    night = ten_minutes(tmp_path)
    night.work(last=1)
    mine = [cell for cell in night.stored.plan.cells if cell.devices == ("cpu:0",)]
    failed = next(cell for cell in mine if cell.workload is Workload.MEMORY)
    night.failed(failed, Category.EXCEPTION)
    night.taken_out("it is gone", device=1)
    night.finish(interrupted=True, reason="stopped on request")
    reasons = [one for one in of_the_first(night).reasons if "never came to an end" in one.text]
    without = [one.text for one in reasons if one.action is Action.NOTHING]
    assert len(reasons) == 6
    assert [text.split(" never")[0] for text in without] == [
        named(failed),
        "transfers between devices of peers in fp32",
    ]


def test_a_segment_that_nothing_came_of_is_named(tmp_path: Path) -> None:
    """All of it."""
    night = ten_minutes(tmp_path)
    night.work(last=30)
    night.segment()
    night.now_ns += 100 * SECOND_NS
    assert "it was ended before any launch was at work, 100 s from 2024-01-15T10:32:31Z on" in words(night)


def test_who_stopped_a_night_is_told_what_makes_up_for_it(tmp_path: Path) -> None:
    """With when that was."""
    night = ten_minutes(tmp_path)
    night.work(last=50)
    night.finish(interrupted=True, reason="stopped on request")
    gpu = of_the_first(night)
    (text,) = (one.text for one in gpu.reasons if "cut short" in one.text)
    assert text.startswith("the night was cut short: stopped on request, 2024-01-15T10:")
    assert text.endswith("; `gpubench-orchestrate resume` goes on until it has its time")
    assert gpu.action is Action.RESUME


@pytest.mark.parametrize(
    ("worked_s", "dropped_s", "told"),
    [
        (12, 0, "it waited for another device, or for who else used it, 20 s from 20"),
        (12, 12, "nothing more was launched, 20 s"),
        (0, 0, "nothing more was launched, 20 s"),
    ],
    ids=["it waited", "dropped at once", "nobody was at work"],
)
def test_a_device_that_waited_for_the_others_of_its_links_is_told_so(
    tmp_path: Path, worked_s: int, dropped_s: int, told: str
) -> None:
    """While these were at work, until there was no time for it any more. dropped_s: before that."""
    night = ten_minutes(tmp_path)
    night.work(last=30)
    (links,) = (cell for cell in night.stored.plan.cells if cell.workload is Workload.LINKS)
    until_ns = night.now_ns + 20 * SECOND_NS
    if dropped_s:
        night.dropped(links, "no time was left", number=7)
    if worked_s:
        night.measured(soak(night, "cpu:1"), number=9, forward_ms=100, blocks=worked_s, iterations=10)
    if not dropped_s:
        night.dropped(links, "no time was left", number=7)
    night._at(until_ns)
    assert told in words(night)
