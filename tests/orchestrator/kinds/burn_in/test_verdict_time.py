"""kinds/burn_in/verdict.py: a night that was short, or lacks something: what makes up for it, where anything does."""

import dataclasses

import pytest

from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.findings import Ahead, Idle, Planned
from orchestrator.kinds.burn_in.verdict import judge
from protocol.cell import Workload
from tests.fakes.works import CLEAN, changed


def test_an_interrupted_night_is_not_also_a_short_one() -> None:
    """It says why, and once."""
    found = judge(changed(interrupted="stopped on request", served_s=10))
    todo = "`gpubench-orchestrate resume` goes on until it has its time"
    assert [reason.text for reason in found.reasons] == [f"the night was cut short: stopped on request; {todo}"]


@pytest.mark.parametrize(
    "for_good",
    [{"idle": (Idle("01:00", 75),)}, {"beside": ("PID 7",)}, {"reboots": 1}, {"failures": ("soak: crashed",)}],
)
def test_time_that_is_missing_is_made_up_for_unless_more_time_does_not_help(for_good: dict[str, object]) -> None:
    """The reason says when and why it is missing, and what to do."""
    short = {"served_s": 500, "lost_time": "a worker stood still, 80 s from 01:00 on"}
    (reason,) = judge(changed(**short)).reasons
    assert reason.text == (
        "at work for 500 s of the 600 s asked for: a worker stood still, 80 s from 01:00 on; "
        "`gpubench-orchestrate resume` goes on until it has its time"
    )
    first, *_ = judge(changed(**short, **for_good)).reasons
    todo = "`resume` makes up for the time, and of what else is UNKNOWN here for want of memory at most: begin again"
    assert first.text.endswith(f"on; {todo}")


def test_no_more_time_is_advised_for_a_run_that_can_never_pass() -> None:
    """Faults were injected: `resume` goes on with them."""
    for facts in ({"served_s": 500}, {"interrupted": "stopped on request"}):
        found = judge(changed(tainted=True, **facts))
        assert found.action is Action.NOTHING
        assert found.reasons[1].text.endswith("; no more time makes it pass: `resume` goes on with the faults alone")


@pytest.mark.parametrize(
    ("facts", "action", "todo"),
    [
        ({}, Action.RESUME, "; `resume` measures it again"),
        ({"ahead": Ahead(50, 25, "20m")}, Action.RESUME, "; `resume` measures it again"),
        ({"ahead": Ahead(49, 25, "20m")}, Action.AGAIN, "; no time is left to measure it again: burn it in again"),
        ({"ahead": Ahead(0, 25, "20m")}, Action.AGAIN, "; no time is left to measure it again: burn it in again"),
        ({"taken_out": "it is too hot"}, Action.AGAIN, "; burn it in again"),
        ({"goes_on": True}, Action.NOTHING, "lost"),
    ],
)
def test_a_lost_result_is_measured_again_where_time_is_left(
    facts: dict[str, object], action: Action, todo: str
) -> None:
    """Each of two, and else it says what to do instead: `resume` goes on for time that is missing, and for no file."""
    found = judge(changed(without_file=("soak: lost", "truth: lost"), **facts))
    mine = [reason for reason in found.reasons if "no result any more" in reason.text]
    assert len(mine) == 2
    assert {reason.verdict for reason in mine} == {HealthVerdict.UNKNOWN}
    assert {reason.action for reason in mine} == {action}
    assert all(reason.text.endswith(todo) for reason in mine)


@pytest.mark.parametrize(("left_s", "action"), [(50, Action.RESUME), (49, Action.AGAIN)])
def test_a_short_night_with_lost_results_goes_on_where_they_have_room(left_s: float, action: Action) -> None:
    """Then they are what makes up for its time; else it ends with some of them lost, and is to begin again at once."""
    found = judge(changed(served_s=500, without_file=("a", "b"), ahead=Ahead(left_s, 25, "20m")))
    assert {reason.action for reason in found.reasons} == {action}


SOAK = next(one for one in CLEAN.planned if one.workload is Workload.SOAK)
OTHERS = tuple(one for one in CLEAN.planned if one is not SOAK)


def never_tried(cells: int = 1) -> tuple[Planned, ...]:
    """The plan with so many cells that came to no end for want of time, and no others that did not."""
    return (*OTHERS, *(dataclasses.replace(SOAK, checks=0, why="dropped", untried=True) for _ in range(cells)))


@pytest.mark.parametrize(
    ("facts", "action", "todo"),
    [
        ({"served_s": 175}, Action.RESUME, "; `resume` goes on with it"),
        ({"served_s": 175, "ahead": Ahead(24, 25, "20m")}, Action.AGAIN, "; begin again, with at least 20m"),
        ({"served_s": 175, "planned": never_tried(16)}, Action.RESUME, "; `resume` goes on with it"),
        ({"served_s": 175, "planned": never_tried(17)}, Action.AGAIN, "; begin again, with at least 20m"),
        ({"ahead": Ahead(0, 25, "20m")}, Action.AGAIN, "; begin again, with at least 20m"),  # its time was served
        ({"served_s": 175, "failures": ("truth: crashed",)}, Action.AGAIN, "; begin again, with at least 20m"),
        ({"goes_on": True}, Action.NOTHING, ""),
        ({"planned": (*OTHERS, dataclasses.replace(SOAK, checks=0, why="dropped"))}, Action.NOTHING, ""),  # it failed
    ],
)
def test_a_cell_that_had_no_time_is_told_with_what_gives_it_some(
    facts: dict[str, object], action: Action, todo: str
) -> None:
    """More of the night where that has room for it, else a longer one: no `resume` is advised that mends nothing."""
    found = judge(changed(**{"planned": never_tried()} | facts))
    told = next(reason for reason in found.reasons if "never came to an end" in reason.text)
    assert told.text == f"{SOAK.name} never came to an end: dropped{todo}"
    assert told.action is action


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({"served_s": 500, "ahead": Ahead(25, 25, "20m")}, Action.RESUME),
        ({"served_s": 500, "ahead": Ahead(24, 25, "20m")}, Action.AGAIN),
        ({"served_s": 500, "ahead": Ahead(60, 25, "20m"), "planned": never_tried(3)}, Action.AGAIN),
        ({"interrupted": "stopped on request", "ahead": Ahead(-3, 25, "20m")}, Action.RESUME),  # it has its time
    ],
)
def test_a_night_whose_rest_has_no_room_for_what_it_lacks_begins_again(
    facts: dict[str, object], action: Action
) -> None:
    """With how long it must be; one that was stopped with its time served needs only to be brought to its end."""
    told = next(reason for reason in judge(changed(**facts)).reasons if reason.action is not Action.NOTHING)
    assert told.action is action
    todo = "what is left of its time has no room for what it lacks: begin again, with at least 20m"
    assert told.text.endswith(f"; {todo}") is (action is Action.AGAIN)
