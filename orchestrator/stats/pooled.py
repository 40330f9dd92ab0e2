"""Variance between launches of each cell, pooled over the cells of a run. Pure.

Variances of cells are shrunk towards their common one by as much as they agree (Smyth 2004, "Linear models and
empirical Bayes", as in limma). The degrees of freedom grow by what the others add.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

LEAST_VARIANCE: Final = 1e-4**2
"""No two launches agree better than by 0.01 %: equal values are a coarse clock."""
_NEWTON_STEPS: Final = 50


@dataclass(frozen=True)
class Variance:
    """A variance and its degrees of freedom."""

    value: float
    degrees: float


def of_launches(values: Sequence[float]) -> Variance | None:
    """Variance of one cell's launches; None for fewer than two."""
    if len(values) < 2:
        return None
    mean = fmean(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Variance(max(squares / (len(values) - 1), LEAST_VARIANCE), len(values) - 1)


def shrunk(own: Sequence[Variance]) -> list[Variance]:
    """Variance of each cell, shrunk. own: those of a run's cells, each of its launches."""
    if len(own) < 2:
        return list(own)
    whole = math.fsum(one.degrees for one in own)
    common, weight = _prior(own)
    if math.isinf(weight):
        return [Variance(common, whole) for _ in own]
    return [
        Variance((weight * common + one.degrees * one.value) / (weight + one.degrees), min(weight + one.degrees, whole))
        for one in own
    ]


def _prior(own: Sequence[Variance]) -> tuple[float, float]:
    """Common variance and its degrees: infinite where the variances differ by chance alone."""
    logs = [math.log(one.value) - digamma(one.degrees / 2) + math.log(one.degrees / 2) for one in own]
    middle = fmean(logs)
    beyond_chance = math.fsum((log - middle) ** 2 for log in logs) / (len(own) - 1) - fmean(
        [trigamma(one.degrees / 2) for one in own]
    )
    if beyond_chance <= 0:
        whole = math.fsum(one.degrees for one in own)
        return math.fsum(one.degrees * one.value for one in own) / whole, math.inf
    weight = 2 * trigamma_inverse(beyond_chance)
    return math.exp(middle + digamma(weight / 2) - math.log(weight / 2)), weight


def digamma(x: float) -> float:
    """Derivative of lgamma, x > 0: by recurrence up to 10, then its expansion (DLMF 5.11.2)."""
    below = 0.0
    while x < 10:
        below -= 1 / x
        x += 1
    square = 1 / (x * x)
    return (
        below + math.log(x) - 1 / (2 * x) - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    )


def trigamma(x: float) -> float:
    """Derivative of digamma, x > 0."""
    below = 0.0
    while x < 10:
        below += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    return below + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30)))


def trigamma_inverse(value: float) -> float:
    """The x > 0 at which trigamma is `value` > 0, by Newton's method on its inverse, which is nearly a line."""
    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(_NEWTON_STEPS):
        found = trigamma(x)
        step = found * (1 - found / value) / _tetragamma(x)
        x += step
        if -step < 1e-10 * x:
            break
    return x


def _tetragamma(x: float) -> float:
    """Derivative of trigamma, x > 0."""
    below = 0.0
    while x < 10:
        below -= 2 / x**3
        x += 1
    square = 1 / (x * x)
    return below - square * (1 + 1 / x + square * (1 / 2 - square * (1 / 6 - square * (1 / 6 - square * 3 / 10))))
