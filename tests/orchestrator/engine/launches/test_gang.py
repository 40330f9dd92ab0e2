"""orchestrator/engine/launches/gang.py: of several processes that ended, which one was the cause."""

import itertools

import msgspec
import pytest

from orchestrator.engine.launches.gang import MemberEnd, judged
from protocol.cell import Precision
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


def told(device: str, outcome: Result | Failure, at: float = 1.0, **more: object) -> MemberEnd:
    """How the process on a device ended."""
    return MemberEnd(device, f"GPU {device}", outcome, at, **more)  # type: ignore[arg-type]  # its fields, by name


def test_results_become_one() -> None:
    """The leader's, with what the others verified."""
    rank, outcome = judged([told("a", verified(1)), told("b", verified(2)), told("c", verified(3))])
    assert isinstance(outcome, Result)
    assert rank == 0
    assert outcome.verification is not None
    assert outcome.verification.checks == 1
    assert {device: one.checks for device, one in outcome.others.items()} == {"b": 2, "c": 3}


def test_a_process_alone_says_what_it_says() -> None:
    """Nothing is added to the outcome of a launch on one device."""
    for outcome in (result(gang("a", precision=Precision.BF16)), failure(Category.DEADLINE), failure(Category.CRASHED)):
        rank, same = judged([told("a", outcome, steps=None)])
        assert rank == 0
        assert same is outcome


LOST, DIED = failure(Category.COMMUNICATION), failure(Category.KILLED)


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ((told("a", LOST, 1.0), told("b", DIED, 1.2), told("c", LOST, 1.1)), "b"),
        ((told("a", DIED, 2.0), told("b", failure(Category.CRASHED), 1.0), told("c", LOST, 1.1)), "b"),
        ((told("a", verified(1)), told("b", LOST, 0.5), told("c", DIED, 2.0)), "c"),
        ((told("a", DIED, 0.5, ended=True), told("b", DIED, 1.0, ended=True), told("c", DIED, 3.0)), "c"),
        ((told("a", failure(Category.DEADLINE), 1.0), told("b", DIED, 2.0), told("c", LOST, 0.1)), "b"),
    ],
)
def test_the_first_that_failed_by_itself_is_the_cause(ends: tuple[MemberEnd, ...], cause: str) -> None:
    """A connection that broke, a deadline, and having been ended with the others are consequences."""
    rank, outcome = judged(ends)
    assert isinstance(outcome, Failure)
    assert (ends[rank].device, outcome.device) == (cause, cause)
    assert set(outcome.evidence) == {f"on {one.label}" for one in ends if one.device != cause}


SURER = (
    (Category.DEVICE_LOST,),
    (Category.DEVICE_HARDWARE, Category.TOO_HOT),
    (Category.DEVICE_UNAVAILABLE, Category.CUDA_STICKY, Category.CUDA_ERROR),
    (Category.OUT_OF_MEMORY, Category.IMPORT_ERROR, Category.NOT_BUILT, Category.EXCEPTION, Category.NOT_FINITE),
    (Category.HOST_OUT_OF_MEMORY, Category.CRASHED, Category.KILLED, Category.NO_OUTCOME),
)


@pytest.mark.parametrize(("surer", "weaker"), list(itertools.pairwise(SURER)))
def test_a_surer_sign_of_the_cause_comes_before_an_earlier_one(
    surer: tuple[Category, ...], weaker: tuple[Category, ...]
) -> None:
    """A lost GPU may give another rank a CUDA error before it is heard of itself."""
    for later, earlier in itertools.product(surer, weaker):
        rank, outcome = judged([told("a", failure(earlier), 10.0), told("b", failure(later), 10.6)])
        assert isinstance(outcome, Failure)
        assert (rank, outcome.device, outcome.category) == (1, "b", later)
        assert outcome.evidence == {"on GPU a": f"{earlier}: it is {earlier}"}


@pytest.mark.parametrize("alike", SURER)
def test_of_signs_alike_the_earliest_is_the_cause(alike: tuple[Category, ...]) -> None:
    """Whichever rank it was on."""
    for first, second in itertools.product(alike, alike):
        rank, _ = judged([told("a", failure(second), 10.6), told("b", failure(first), 10.0)])
        assert rank == 1


LATE = failure(Category.DEADLINE)


@pytest.mark.parametrize(
    ("steps", "stopped", "device", "words"),
    [
        ((7, 6, 7), "", "b", "GPU b made no progress: it had begun 6 transfers"),
        ((7, 7, 7), "c", "c", "GPU c made no progress: its process was stopped"),
        ((6, 7, 7), "c", "c", "GPU c made no progress: its process was stopped"),
        ((7, 7, 7), "", None, "nothing tells which device it was"),
        ((6, 6, 7), "", None, "nothing tells which device it was"),
        ((6, None, 7), "", None, "nothing tells which device it was"),
    ],
)
def test_of_all_that_wait_the_one_that_did_not_come_is_named(
    steps: tuple[int | None, ...], stopped: str, device: str | None, words: str
) -> None:
    """The first to pass its deadline is not the one that hangs; where nothing tells, nobody is named."""
    names = ("a", "b", "c")
    ends = [
        told(name, LATE, ended=number > 0, steps=step, stopped=name == stopped)
        for number, (name, step) in enumerate(zip(names, steps, strict=True))
    ]
    rank, outcome = judged(ends)
    assert isinstance(outcome, Failure)
    assert (outcome.category, outcome.device or None) == (Category.DEADLINE, device)
    assert words in outcome.message
    assert device in {None, names[rank]}


def test_a_connection_that_breaks_by_itself_is_nobodys_fault() -> None:
    """Where all processes lived and only say that it broke."""
    _, outcome = judged([told("a", LOST, 1.0), told("b", LOST, 0.5, ended=False), told("c", LOST, 2.0)])
    assert isinstance(outcome, Failure)
    assert (outcome.category, outcome.device or None) == (Category.COMMUNICATION, None)
    assert len(outcome.evidence) == 2
