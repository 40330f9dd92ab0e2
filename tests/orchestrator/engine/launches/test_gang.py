"""orchestrator/engine/launches/gang.py: which of several failed processes was the cause."""

import itertools
import re

import msgspec
import pytest

from orchestrator.engine.launches.gang import MemberEnd, halted, judged
from protocol.failure import Category, Failure, Phase
from protocol.result import Result
from protocol.verification import Verification
from tests.fakes.gangs import gang
from tests.fakes.results import result

CELL = gang("a", "b", "c")


def failure(category: Category) -> Failure:
    """A failure of a category."""
    return Failure(category=category, message=f"it is {category}", phase=Phase.MEASURE)


def verified(checks: int) -> Result:
    """A result whose verification has so many checks."""
    return msgspec.structs.replace(result(CELL), verification=Verification(key=(), method="m", checks=checks))


def member_end(device: str, outcome: Result | Failure, at: float = 1.0, **more: object) -> MemberEnd:
    """Return the end of the process on a device."""
    return MemberEnd(device, f"GPU {device}", outcome, at, **more)  # type: ignore[arg-type]  # its fields, by name


def test_results_become_one() -> None:
    """The leader's, with what the others verified."""
    rank, outcome = judged([member_end("a", verified(1)), member_end("b", verified(2)), member_end("c", verified(3))])
    assert (rank, outcome.verification.checks) == (0, 1)
    assert {device: one.checks for device, one in outcome.others.items()} == {"b": 2, "c": 3}


def test_the_outcome_of_a_single_process_is_unchanged() -> None:
    """Nothing is added to the outcome of a launch on one device."""
    for outcome in (verified(1), failure(Category.DEADLINE), failure(Category.CRASHED)):
        rank, same = judged([member_end("a", outcome)])
        assert (rank, same is outcome) == (0, True)


LOST, DIED = failure(Category.COMMUNICATION), failure(Category.KILLED)


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ((member_end("a", LOST, 1.0), member_end("b", DIED, 1.2), member_end("c", LOST, 1.1)), "b"),
        (
            (member_end("a", DIED, 2.0), member_end("b", failure(Category.CRASHED), 1.0), member_end("c", LOST, 1.1)),
            "b",
        ),
        ((member_end("a", verified(1)), member_end("b", LOST, 0.5), member_end("c", DIED, 2.0)), "c"),
        (
            (
                member_end("a", DIED, 0.5, ended=True),
                member_end("b", DIED, 1.0, ended=True),
                member_end("c", DIED, 3.0),
            ),
            "c",
        ),
        (
            (member_end("a", failure(Category.DEADLINE), 1.0), member_end("b", DIED, 2.0), member_end("c", LOST, 0.1)),
            "b",
        ),
    ],
)
def test_the_first_failure_of_its_own_is_the_cause(ends: tuple[MemberEnd, ...], cause: str) -> None:
    """A broken connection, a deadline, and being ended with the others are consequences."""
    rank, outcome = judged(ends)
    assert (ends[rank].device, outcome.device) == (cause, cause)
    assert set(outcome.evidence) == {f"on {one.label}" for one in ends if one.device != cause}


SURER = (
    (Category.DEVICE_LOST,),
    (Category.DEVICE_HARDWARE, Category.TOO_HOT),
    (Category.DEVICE_UNAVAILABLE, Category.CUDA_STICKY, Category.CUDA_ERROR),
    (Category.OUT_OF_MEMORY, Category.IMPORT_ERROR, Category.NOT_BUILT, Category.EXCEPTION, Category.NOT_FINITE),
    (Category.HOST_OUT_OF_MEMORY, Category.CRASHED, Category.KILLED, Category.NO_OUTCOME),
)


@pytest.mark.parametrize(("surer", "weaker"), [*itertools.pairwise(SURER), *((alike, alike) for alike in SURER)])
def test_a_surer_sign_is_the_cause_else_the_earlier_one(
    surer: tuple[Category, ...], weaker: tuple[Category, ...]
) -> None:
    """A lost GPU may give another rank a CUDA error before it reports itself."""
    late, early = (10.6, 10.0) if surer is not weaker else (10.0, 10.6)
    for cause, other in itertools.product(surer, weaker):
        rank, outcome = judged([member_end("a", failure(other), early), member_end("b", failure(cause), late)])
        assert (rank, outcome.device, outcome.category) == (1, "b", cause)
        assert outcome.evidence == {"on GPU a": f"{other}: it is {other}"}


LATE = failure(Category.DEADLINE)


@pytest.mark.parametrize(
    ("steps", "stopped", "device", "words"),
    [
        ((7, 6, 7), "", "b", "GPU b .* 6 transfers"),
        ((7, 7, 7), "c", "c", "GPU c .* stopped"),
        ((6, 7, 7), "c", "c", "GPU c .* stopped"),
        ((7, 7, 7), "", None, ""),
        ((6, 6, 7), "", None, ""),
        ((6, None, 7), "", None, ""),
    ],
)
def test_the_rank_with_the_fewest_steps_hangs(
    steps: tuple[int | None, ...], stopped: str, device: str | None, words: str
) -> None:
    """Not the first to pass its deadline; without evidence no device is the cause."""
    names = ("a", "b", "c")
    ends = [
        member_end(name, LATE, ended=number > 0, steps=step, stopped=name == stopped)
        for number, (name, step) in enumerate(zip(names, steps, strict=True))
    ]
    rank, outcome = judged(ends)
    assert (outcome.category, outcome.device or None) == (Category.DEADLINE, device)
    assert re.search(words, outcome.message)
    assert device in {None, names[rank]}


def test_a_connection_that_breaks_by_itself_has_no_culprit() -> None:
    """All processes lived and only report that it broke."""
    _, outcome = judged([member_end("a", LOST, 1.0), member_end("b", LOST, 0.5), member_end("c", LOST, 2.0)])
    assert (outcome.category, outcome.device or None) == (Category.COMMUNICATION, None)
    assert len(outcome.evidence) == 2


def test_a_halted_process_is_named_with_what_the_others_had() -> None:
    """All have results, of which none is believed; where the whole machine was halted, no device is named."""
    ends = [member_end("a", verified(1)), member_end("b", verified(2)), member_end("c", verified(3))]
    one = halted(ends, failure(Category.HALTED), 1)
    assert (one.device, list(one.evidence)) == ("b", ["on GPU a", "on GPU c"])
    everywhere = halted(ends, failure(Category.HALTED), None)
    assert (everywhere.device or None, len(everywhere.evidence)) == (None, 2)
    assert not halted(ends[:1], failure(Category.HALTED), 0).evidence
