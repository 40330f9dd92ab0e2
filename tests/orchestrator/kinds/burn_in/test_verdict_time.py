"""kinds/burn_in/verdict.py: a burn-in that was short, or lacks something: what makes up for it, where anything does."""

import dataclasses

import pytest

from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.findings import Ahead, Idle, Planned
from orchestrator.kinds.burn_in.verdict import judge
from protocol.cell import Workload
from tests.fakes.works import CLEAN, changed

NOTHING, RESUME, AGAIN = Action.NOTHING, Action.RESUME, Action.AGAIN
LEAST = "20m"
"""The shortest new burn-in that would do."""


def test_an_interrupted_burn_in_is_not_also_a_short_one() -> None:
    """It has one reason, with its cause."""
    (reason,) = judge(changed(interrupted="stopped on request", served_s=10)).reasons
    assert ("stopped on request" in reason.text, reason.action) == (True, RESUME)


@pytest.mark.parametrize(
    ("lasting", "action"),
    [
        ({}, RESUME),
        ({"idle": (Idle("01:00", 75),)}, AGAIN),
        ({"beside": ("PID 7",)}, AGAIN),
        ({"reboots": 1}, AGAIN),
        ({"failures": ("soak: crashed",)}, AGAIN),
    ],
)
def test_missing_time_is_made_up_for_unless_more_time_does_not_help(lasting: dict[str, object], action: Action) -> None:
    """The reason has when and why it is missing."""
    first, *_ = judge(changed(served_s=500, lost_time="a worker stood still, 80 s from 01:00 on", **lasting)).reasons
    assert first.action is action
    carried = ("500 s of the 600 s", "a worker stood still, 80 s from 01:00 on", "`resume`" if lasting else " resume`")
    assert [part for part in carried if part not in first.text] == []


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({}, RESUME),
        ({"ahead": Ahead(50, 25, LEAST)}, RESUME),
        ({"ahead": Ahead(49, 25, LEAST)}, AGAIN),
        ({"ahead": Ahead(0, 25, LEAST)}, AGAIN),
        ({"taken_out": "it is too hot"}, AGAIN),
        ({"goes_on": True}, NOTHING),
        # Then they are what makes up for its time; else it ends with some of them lost.
        ({"served_s": 500, "ahead": Ahead(50, 25, LEAST)}, RESUME),
        ({"served_s": 500, "ahead": Ahead(49, 25, LEAST)}, AGAIN),
    ],
)
def test_a_lost_result_is_measured_again_where_time_is_left(facts: dict[str, object], action: Action) -> None:
    """Each of two: `resume` goes on for time that is missing, and for no file."""
    reasons = judge(changed(without_file=("soak: lost", "truth: lost"), **facts)).reasons
    mine = [reason for reason in reasons if ": lost" in reason.text]
    assert [(reason.verdict, reason.action) for reason in mine] == [(HealthVerdict.UNKNOWN, action)] * 2
    assert {reason.action for reason in reasons} <= {action, *([NOTHING] if "goes_on" in facts else [])}
    assert all(("`resume`" in reason.text) is (action is RESUME) for reason in mine)


SOAK = next(one for one in CLEAN.planned if one.workload is Workload.SOAK)
OTHERS = tuple(one for one in CLEAN.planned if one is not SOAK)


def never_tried(cells: int = 1) -> tuple[Planned, ...]:
    """The plan with so many cells that came to no end for want of time, and no others that did not."""
    return (*OTHERS, *(dataclasses.replace(SOAK, checks=0, why="dropped", untried=True) for _ in range(cells)))


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({"served_s": 175}, RESUME),
        ({"served_s": 175, "ahead": Ahead(24, 25, LEAST)}, AGAIN),
        ({"served_s": 175, "planned": never_tried(16)}, RESUME),
        ({"served_s": 175, "planned": never_tried(17)}, AGAIN),
        ({"ahead": Ahead(0, 25, LEAST)}, AGAIN),  # its time was served
        ({"served_s": 175, "failures": ("truth: crashed",)}, AGAIN),
        ({"goes_on": True}, NOTHING),
        ({"planned": (*OTHERS, dataclasses.replace(SOAK, checks=0, why="dropped"))}, NOTHING),  # it failed
    ],
)
def test_a_cell_that_had_no_time_needs_more_of_it(facts: dict[str, object], action: Action) -> None:
    """The rest of the burn-in where that has room for it, else a longer one; no `resume` that fixes nothing."""
    found = judge(changed(**{"planned": never_tried()} | facts))
    reason = next(reason for reason in found.reasons if reason.text.startswith(SOAK.name))
    assert ("dropped" in reason.text, reason.action) == (True, action)
    assert (LEAST in reason.text) is (action is AGAIN)


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({"served_s": 500, "ahead": Ahead(25, 25, LEAST)}, RESUME),
        ({"served_s": 500, "ahead": Ahead(24, 25, LEAST)}, AGAIN),
        ({"served_s": 500, "ahead": Ahead(60, 25, LEAST), "planned": never_tried(3)}, AGAIN),
        ({"interrupted": "stopped on request", "ahead": Ahead(-3, 25, LEAST)}, RESUME),  # it has its time
    ],
)
def test_a_burn_in_whose_rest_has_no_room_for_what_it_lacks_begins_again(
    facts: dict[str, object], action: Action
) -> None:
    """With how long it must be; one that was stopped with its time served needs only to be brought to its end."""
    reason = next(reason for reason in judge(changed(**facts)).reasons if reason.action is not NOTHING)
    assert reason.action is action
    assert (LEAST in reason.text) is (action is AGAIN)
