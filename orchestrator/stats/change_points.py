"""Lasting changes of a repeatedly measured figure beyond a margin. Pure.

    runs since the last change, at least LEAST ──▶ against the LEAST, 2 x LEAST, 4 x LEAST, ... runs that follow
       two-sided t against the margin, variance pooled, Bonferroni over every comparison of the series
       the first that passes ── of the places just behind it the one with the least p ──▶ a change; go on from there

The run is the unit: launches of one run agree better than runs of different days. A single run makes no change: the
smaller of the differences of means and of medians counts.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final, NamedTuple

from orchestrator.stats import student
from orchestrator.stats.pooled import LEAST_VARIANCE

LEAST: Final = 3
"""Fewest runs on each side of a change: two may agree by chance."""
ALPHA: Final = 0.01
"""Probability of finding a change in a series that has none. It is low, because many series are examined often."""


class Change(NamedTuple):
    """A lasting change. at: index of its first run. log_ratio: log of new over old median. p: Bonferroni-corrected."""

    at: int
    log_ratio: float
    p: float


class _Series(NamedTuple):
    """A series of logarithms. bound: the margin as a logarithm. tests: number of possible comparisons."""

    logs: Sequence[float]
    bound: float
    tests: int


class _Held(NamedTuple):
    log_ratio: float
    p: float


_WITHIN: Final = _Held(0.0, 1.0)
"""Result of a comparison whose difference is within the margin, whatever its size."""


def find(logs: Sequence[float], margin: float) -> list[Change]:
    """Return the changes of a series, in order. logs: one per run, oldest first. margin: a share."""
    places = range(LEAST, len(logs) - LEAST + 1)
    series = _Series(logs, -math.log1p(-margin), sum(len(_lengths(len(logs) - at)) for at in places))
    found: list[Change] = []
    start = 0
    while (change := _first(series, start)) is not None:
        found.append(change)
        start = change.at
    return found


def _first(series: _Series, start: int) -> Change | None:
    runs = len(series.logs)
    for at in range(start + LEAST, runs - LEAST + 1):
        for length in _lengths(runs - at):
            if _held(series, start, at, length).p * series.tests <= ALPHA:
                return _sharpest(series, start, at, length)
    return None


def _sharpest(series: _Series, start: int, at: int, length: int) -> Change:
    """Return the change with the least p of all that begin in the `length` runs from `at` on."""
    runs = len(series.logs)
    held = {
        (place, shorter): _held(series, start, place, shorter)
        for place in range(at, min(at + length, runs - LEAST + 1))
        for shorter in _lengths(min(length, runs - place))
    }
    (best, _), shown = min(held.items(), key=lambda item: item[1].p)
    return Change(best, shown.log_ratio, min(1.0, shown.p * series.tests))


def _lengths(left: int) -> list[int]:
    """Return the lengths LEAST, 2 x LEAST, 4 x LEAST and so on. left: number of remaining runs, the limit."""
    return [LEAST << double for double in range((left // LEAST).bit_length())]


def _held(series: _Series, start: int, at: int, length: int) -> _Held:
    """Compare the values from `start` to `at` with the next `length` values. Returns the change and its p-value."""
    before, after = series.logs[start:at], series.logs[at : at + length]
    middle, level = fmean(before), fmean(after)
    if abs(level - middle) <= series.bound:  # the usual case, which needs no medians
        return _WITHIN
    change = median(after) - median(before)
    beyond = min(abs(change), math.copysign(1.0, change) * (level - middle)) - series.bound
    if beyond <= 0:
        return _WITHIN
    squares = math.fsum((value - middle) ** 2 for value in before) + math.fsum((value - level) ** 2 for value in after)
    degrees = len(before) + len(after) - 2
    variance = max(squares / degrees, LEAST_VARIANCE) * (1 / len(before) + 1 / len(after))
    return _Held(change, min(1.0, 2 * student.tail(beyond / math.sqrt(variance), degrees)))
