"""Trend of a series and the change over it, with intervals widened for autocorrelation. Pure.

Trend: the Theil-Sen slope; its interval from the variance of Kendall's S (Sen 1968). Change: the mean of the last fifth
of the time less that of the first. Both variances are multiplied by (1 + r) / (1 - r) for the lag-1 autocorrelation r
of the residuals (Hamed and Rao 1998 for S; protocol/intervals.py for means). Residuals are of a line, or of one step
where that leaves less than half as much: a line through a step leaves slow waves, which would hide the step.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final, NamedTuple

from orchestrator.stats import student

ENDS: Final = 0.2
LEAST_POINTS: Final = 20
LEAST_AT_AN_END: Final = 3
_CONFIDENCE: Final = 0.975
_MOST_AUTOCORRELATION: Final = 0.95


class Point(NamedTuple):
    """A value at a time, in hours since the beginning."""

    at_h: float
    value: float


@dataclass(frozen=True)
class Interval:
    """A value with its interval, of 95 % by default, whose ends may be infinite."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Movement:
    """slope: an hour. change: of the last fifth against the first. step_h: time of a jump; None without one."""

    slope: Interval
    change: Interval
    step_h: float | None


def movement(points: Sequence[Point], hours: float) -> Movement | None:
    """Movement of the values over `hours`; None for too few, or hardly any at an end. points: at_h from 0 to hours."""
    first = [point.value for point in points if point.at_h < ENDS * hours]
    last = [point.value for point in points if point.at_h > (1 - ENDS) * hours]
    if len(points) < LEAST_POINTS or min(len(first), len(last)) < LEAST_AT_AN_END:
        return None
    left, step_h = rest(points, LEAST_AT_AN_END)
    variance = math.fsum(value**2 for value in left) / (len(left) - 2) * widening([left])
    reach = student.quantile(_CONFIDENCE, len(left) - 2) * math.sqrt(variance * (1 / len(first) + 1 / len(last)))
    change = fmean(last) - fmean(first)
    return Movement(slope=theil_sen(points), change=Interval(change, change - reach, change + reach), step_h=step_h)


def theil_sen(points: Sequence[Point]) -> Interval:
    """The slope an hour, with its interval. Raises ValueError for fewer than three points."""
    if len(points) < 3:
        raise ValueError(f"a slope with an interval needs at least three points, got {len(points)}")
    slopes = sorted(slopes_of(points))
    slope, number = median(slopes), len(points)
    left = [point.value - slope * point.at_h for point in points]
    centre = median(left)
    variance = number * (number - 1) * (2 * number + 5) / 18 * widening([[value - centre for value in left]])
    reach = student.quantile(_CONFIDENCE, number - 2) * math.sqrt(variance)
    below = math.floor((len(slopes) - reach) / 2)
    if below < 0:
        return Interval(slope, -math.inf, math.inf)
    return Interval(slope, slopes[below], slopes[-1 - below])


def slopes_of(points: Sequence[Point]) -> list[float]:
    """Slopes between all pairs of points at different times."""
    return [(b.value - a.value) / (b.at_h - a.at_h) for a, b in itertools.combinations(points, 2) if b.at_h != a.at_h]


def rest(points: Sequence[Point], least: int) -> tuple[list[float], float | None]:
    """Residuals of the better of a line and a step with `least` values on either side, and the time of such a step."""
    slope = median(slopes_of(points))
    lines = [point.value - slope * point.at_h for point in points]
    by_line = _deviations(lines)
    values = [point.value for point in points]
    splits = range(least, len(points) - least + 1)
    by_step, at = min((_squares(values[:at]) + _squares(values[at:]), at) for at in splits)
    if by_step < math.fsum(value**2 for value in by_line) / 2:
        return _deviations(values[:at]) + _deviations(values[at:]), (points[at - 1].at_h + points[at].at_h) / 2
    return by_line, None


def _deviations(values: Sequence[float]) -> list[float]:
    centre = fmean(values)
    return [value - centre for value in values]


def _squares(values: Sequence[float]) -> float:
    return math.fsum(value**2 for value in _deviations(values))


def widening(rests: Sequence[Sequence[float]]) -> float:
    """(1 + r) / (1 - r) of several series, at least 1. A fitted line hides (2 + 4 r) / n of r, which is added."""
    squares = math.fsum(value**2 for own in rests for value in own)
    if squares == 0:
        return 1.0
    number = fmean(len(own) for own in rests)
    seen = math.fsum(a * b for own in rests for a, b in itertools.pairwise(own)) / squares
    r = (seen + 2 / number) / (1 - 4 / number) if number > 4 else _MOST_AUTOCORRELATION
    r = min(max(r, 0.0), _MOST_AUTOCORRELATION)
    return (1 + r) / (1 - r)
