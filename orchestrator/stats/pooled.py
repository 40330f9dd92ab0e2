"""Variance between launches of each cell, pooled over the cells of a run. Pure.

The more the cells' variances agree, the more they are shrunk towards a common one and gain degrees of freedom (Smyth
2004, "Linear models and empirical Bayes", as in limma).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

LEAST_VARIANCE: Final = 1e-4**2
"""Least variance of log rates. Launches agree to 0.01 % at best, so equal values only show a coarse clock."""
_NEWTON_STEPS: Final = 50


@dataclass(frozen=True)
class Variance:
    """A variance and its degrees of freedom."""

    value: float
    degrees: float


def of_launches(sides: Sequence[Sequence[float]]) -> Variance | None:
    """Return the variance between a cell's launches within the same run or session, but at least LEAST_VARIANCE.

    sides: one list of launches (logarithms of their rates) for each run or session. None if no list has two launches.
    """
    degrees = sum(len(values) - 1 for values in sides)
    if degrees < 1:
        return None
    means = [fmean(values) for values in sides]
    squares = math.fsum((value - mean) ** 2 for values, mean in zip(sides, means, strict=True) for value in values)
    return Variance(max(squares / degrees, LEAST_VARIANCE), degrees)


def shrunk(own: Sequence[Variance]) -> list[Variance]:
    """Return the variances of a run's cells in the same order, shrunk towards their common variance."""
    if len(own) < 2:
        return list(own)
    whole = math.fsum(variance.degrees for variance in own)
    value, weight = _prior(own)
    if math.isinf(weight):
        return [Variance(value, whole) for _ in own]
    return [
        Variance(
            (weight * value + variance.degrees * variance.value) / (weight + variance.degrees),
            min(weight + variance.degrees, whole),
        )
        for variance in own
    ]


def common(own: Sequence[Variance]) -> Variance:
    """Return the variance to expect of a cell with too few launches. own: variances of other cells, at least one."""
    value, weight = _prior(own) if len(own) > 1 else (own[0].value, own[0].degrees)
    return Variance(value, min(weight, math.fsum(variance.degrees for variance in own)))


def _prior(own: Sequence[Variance]) -> tuple[float, float]:
    """Return the common variance of at least two cells, and its degrees of freedom.

    The degrees are infinite if the variances `own` differ only by chance.
    """
    logs = [
        math.log(variance.value) - digamma(variance.degrees / 2) + math.log(variance.degrees / 2) for variance in own
    ]
    middle = fmean(logs)
    beyond_chance = math.fsum((log - middle) ** 2 for log in logs) / (len(own) - 1) - fmean(
        [trigamma(variance.degrees / 2) for variance in own]
    )
    if beyond_chance <= 0:
        whole = math.fsum(variance.degrees for variance in own)
        return math.fsum(variance.degrees * variance.value for variance in own) / whole, math.inf
    weight = 2 * trigamma_inverse(beyond_chance)
    return math.exp(middle + digamma(weight / 2) - math.log(weight / 2)), weight


def digamma(x: float) -> float:
    """Return the derivative of lgamma, x > 0 (DLMF 5.11.2)."""
    below = 0.0
    while x < 10:
        below -= 1 / x
        x += 1
    square = 1 / (x * x)
    return (
        below + math.log(x) - 1 / (2 * x) - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    )


def trigamma(x: float) -> float:
    """Return the derivative of digamma, x > 0."""
    below = 0.0
    while x < 10:
        below += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    return below + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30)))


def trigamma_inverse(value: float) -> float:
    """Return the x > 0 with trigamma(x) = value > 0."""
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
    below = 0.0
    while x < 10:
        below -= 2 / x**3
        x += 1
    square = 1 / (x * x)
    return below - square * (1 + 1 / x + square * (1 / 2 - square * (1 / 6 - square * (1 / 6 - square * 3 / 10))))
