"""orchestrator/burn_in/blame.py: whose fault wrong bits between devices are."""

import msgspec
import pytest

from orchestrator.burn_in.blame import blamed
from protocol.verification import Mismatch, Verification
from tests.fakes.findings import mismatch

OWN = "own"
SUM = "sum"
DEVICES = ("a", "b", "c")


def seen(devices: tuple[str, ...], *wrong: tuple[str, str]) -> dict[str, Verification]:
    """What each device found; wrong: who found it, and what: of its own, in a sum, or from another device."""
    found: dict[str, list[Mismatch]] = {device: [] for device in devices}
    for device, what in wrong:
        sender = what if what in devices else None
        found[device].append(mismatch(what=what, sender=sender, of_all=what == SUM))
    return {
        device: Verification(key=(), method="m", checks=9, mismatches=len(own), kept=tuple(own))
        for device, own in found.items()
    }


@pytest.mark.parametrize(
    ("wrong", "guilty", "doubtful"),
    [
        ((), set(), set()),
        # its own numbers were wrong: what the others received of them follows
        ((("b", OWN), ("a", "b"), ("c", "b"), ("a", SUM), ("b", SUM), ("c", SUM)), {"b"}, {"a", "c"}),
        ((("b", OWN), ("a", "b")), {"b"}, set()),
        # sound where it was sent, wrong everywhere it arrived
        ((("a", "b"), ("c", "b")), {"b"}, set()),
        # wrong from wherever it came
        ((("a", "b"), ("a", "c")), {"a"}, set()),
        # between two of them alone
        ((("a", "b"),), {"a", "b"}, set()),
        # a sum that one of them has wrong, that two or all have wrong, and those that may follow from a copy
        ((("c", SUM),), {"c"}, set()),
        ((("a", SUM), ("b", SUM)), set(), {"a", "b"}),
        ((("a", SUM), ("b", SUM), ("c", SUM)), set(), {"a", "b", "c"}),
        ((("a", "b"), ("c", "b"), ("a", SUM)), {"b"}, {"a"}),
        ((("b", "a"), ("c", SUM)), {"a", "b"}, {"c"}),
        ((("b", "a"), ("a", SUM), ("b", SUM)), {"a", "b"}, set()),
        # two faults at once
        ((("b", OWN), ("a", "b"), ("c", "a")), {"a", "b", "c"}, set()),
    ],
)
def test_whose_fault_it_is(wrong: tuple[tuple[str, str], ...], guilty: set[str], doubtful: set[str]) -> None:
    """Three devices tell a sender, a receiver and a link apart; a sum beside what others have wrong is left open."""
    found = blamed(seen(DEVICES, *wrong))
    assert {one.device for one in found if not one.doubtful} == guilty
    assert {one.device for one in found if one.doubtful} == doubtful


def test_a_link_counts_against_both_ends_and_is_named() -> None:
    """Sender and receiver, in that order."""
    found = blamed(seen(DEVICES, ("a", "b")))
    assert [(one.device, one.ends, one.link) for one in found] == [("b", ("b", "a"), True), ("a", ("b", "a"), True)]


def test_of_two_devices_a_copy_tells_the_link_alone() -> None:
    """There is no third to hold them against."""
    found = blamed(seen(("a", "b"), ("a", "b")))
    assert {(one.device, one.link) for one in found} == {("a", True), ("b", True)}


def test_a_transfer_to_the_host_is_the_devices_own() -> None:
    """No other device had to do with it."""
    assert [one.device for one in blamed(seen(DEVICES, ("c", "copy to the host and back")))] == ["c"]


def test_a_sum_beside_what_another_one_did_not_keep_is_left_open() -> None:
    """It may be the same sum: the details of sixteen mismatches are kept, all are counted."""
    found = seen(DEVICES, ("a", SUM))
    found["b"] = msgspec.structs.replace(found["b"], mismatches=3)
    assert [(one.device, one.doubtful) for one in blamed(found)] == [("a", True)]
