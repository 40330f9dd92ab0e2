"""Find the root cause of a run's failed launches (processes that measure), and describe failures."""

from collections.abc import Sequence
from typing import Final

from orchestrator.figures.cells import Status
from orchestrator.figures.report import FailureReport
from orchestrator.state.failure_policy import Trait, has_trait
from orchestrator.state.stopping import OUT_OF_TIME, how_it_ended
from protocol.failure import Category

_WITHOUT: Final = frozenset({Status.FAILED, Status.MISSING})


def root(failures: Sequence[FailureReport]) -> FailureReport | None:
    """Return the most probable root cause; None if no failure can be one.

    Launches without a category (interrupted, or the result is damaged) cannot, nor those with Trait.NO_ROOT_CAUSE.
    Of those that can, it is the first in `failures` whose category explains others (Trait.ROOT_CAUSE), else the first
    of a cell that is FAILED or MISSING, else the first.
    """
    return min(_causes(failures), key=_gravity, default=None)


def explains(cause: FailureReport, failures: Sequence[FailureReport]) -> bool:
    """Whether `cause` explains all `failures` that can be root causes (see `root`).

    True if its category explains others (Trait.ROOT_CAUSE), or if all have the same `kind`.
    """
    return has_trait(cause.category, Trait.ROOT_CAUSE) or len({kind(one) for one in _causes(failures)}) == 1


def _causes(failures: Sequence[FailureReport]) -> list[FailureReport]:
    return [
        failure
        for failure in failures
        if failure.category is not None and not has_trait(failure.category, Trait.NO_ROOT_CAUSE)
    ]


def _gravity(failure: FailureReport) -> int:
    if has_trait(failure.category, Trait.ROOT_CAUSE):
        return 0
    return 1 if failure.status in _WITHOUT else 2


def out_of_time(failure: FailureReport) -> bool:
    """Whether the launch was ended by the time limit of the run, and so did not fail."""
    return failure.category == Category.STOPPED and failure.message == OUT_OF_TIME


def kind(failure: FailureReport) -> str:
    """Return how a launch failed and in which phase, such as "out of memory (phase warm-up)"."""
    phase = f" (phase {failure.phase})" if failure.phase else ""
    return f"{how_it_ended(failure.category or failure.outcome, failure.message)}{phase}"
