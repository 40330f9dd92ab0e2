"""Which failure explains most, what a failure was in words, and which are no failures at all."""

from collections.abc import Sequence
from typing import Final

from orchestrator.analysis.outcomes import Status
from orchestrator.figures.report import FailureReport
from orchestrator.state.stopping import OUT_OF_TIME, how_it_ended
from protocol.failure import Category

_HARDWARE: Final = frozenset(
    {Category.DEVICE_LOST, Category.DEVICE_HARDWARE, Category.UNKILLABLE, Category.DEVICE_NOT_FREED}
)
_ASKED_FOR: Final = frozenset({Category.STOPPED, Category.INTERRUPTED, Category.RESULT_LOST, Category.THROTTLED})
"""Never the cause of anything else."""
_WITHOUT: Final = frozenset({Status.FAILED, Status.MISSING})


def root(found: Sequence[FailureReport]) -> FailureReport | None:
    """The earliest of the gravest. Interrupted attempts and those that a person stopped explain nothing."""
    causes = [one for one in found if one.category is not None and one.category not in _ASKED_FOR]
    return min(causes, key=_gravity, default=None)


def _gravity(failure: FailureReport) -> int:
    if failure.category in _HARDWARE:
        return 0
    return 1 if failure.status in _WITHOUT else 2


def out_of_time(failure: FailureReport) -> bool:
    """Whether the time limit of the run ended it, which is no failure of anything."""
    return failure.category == Category.STOPPED and failure.message == OUT_OF_TIME


def kind(failure: FailureReport) -> str:
    """How it ended, and when."""
    phase = f" while in phase {failure.phase}" if failure.phase else ""
    return f"{how_it_ended(failure.category or failure.outcome, failure.message)}{phase}"
