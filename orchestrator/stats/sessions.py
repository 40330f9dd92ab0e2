"""Spread between the sessions of one machine, learned from earlier runs of the same cells. Pure."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance
from typing import Final, TypeVar

from orchestrator.stats import pooled

LEAST_SESSIONS: Final = 3
_PRIOR_DEGREES: Final = 4.0
"""Weight of the prior, as degrees of freedom. It counts as much as five sessions, because three say little."""
_Cell = TypeVar("_Cell")


def learned(sessions: Sequence[Mapping[_Cell, Sequence[float]]], prior: float) -> float | None:
    """Return the standard deviation of the mean log rate between sessions, without the part due to single launches.

    sessions: for each session, cell → rates of its launches, above zero. prior: assumed standard deviation, towards
    which the result is shrunk. None for fewer than three sessions with common cells.
    """
    sessions, cells = _alike(sessions)
    if len(sessions) < LEAST_SESSIONS:
        return None
    logs = {cell: [[math.log(rate) for rate in one[cell]] for one in sessions] for cell in cells}
    levels = [fmean([fmean(sides[index]) for sides in logs.values()]) for index in range(len(sessions))]
    of_launches = math.fsum(_of_mean(sides) for sides in logs.values()) / len(cells) ** 2
    found, degrees = max(variance(levels) - of_launches, 0.0), len(sessions) - 1
    return math.sqrt((_PRIOR_DEGREES * prior**2 + degrees * found) / (_PRIOR_DEGREES + degrees))


def _alike(
    sessions: Sequence[Mapping[_Cell, Sequence[float]]],
) -> tuple[list[Mapping[_Cell, Sequence[float]]], set[_Cell]]:
    """Return the sessions to use, and the cells that all of these have in common.

    Sessions are tried in order, from the one with most cells. A session is excluded if it would leave fewer common
    cells than half of the number of different cells in all sessions together.
    """
    cells = set[_Cell]().union(*sessions)
    least, found = len(cells) / 2, list[Mapping[_Cell, Sequence[float]]]()
    for one in sorted(sessions, key=len, reverse=True):
        if len(common := cells & one.keys()) >= least and common:
            cells = common
            found.append(one)
    return found, cells


def _of_mean(sides: Sequence[Sequence[float]]) -> float:
    """Return how much single launches contribute to the variance of a cell's mean log rate in a session.

    Averaged over the sessions. 0 if no session has two launches. sides: for each session, the log rates of its
    launches.
    """
    own = pooled.of_launches(sides)
    return 0.0 if own is None else own.value * fmean([1 / len(side) for side in sides])
