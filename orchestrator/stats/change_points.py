"""Lasting changes of a repeatedly measured figure beyond a margin. Pure.

    the runs since the last change (at least LEAST) are compared with the next LEAST, 2 x LEAST, 4 x LEAST, ... runs
      ──▶ two-sided t-test against the margin, variance pooled over both sides, Bonferroni over all comparisons
      ──▶ the first significant comparison shows a change. It begins at the run nearby that gives the least p
      ──▶ the search goes on from there

The run is the unit: launches of one run agree better than runs of different days. A single unusual run is no change,
because the smaller of two differences counts: that of the means and that of the medians.
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
    """A lasting change of a figure. at: index of the first run after it. p: p-value after Bonferroni's correction.

    log_ratio: logarithm of (median after it / median before it).
    """

    at: int
    log_ratio: float
    p: float


class _Series(NamedTuple):
    """Logarithms of a figure in each run. bound: the margin as a logarithm, above 0. tests: number of comparisons."""

    logs: Sequence[float]
    bound: float
    tests: int


class _Held(NamedTuple):
    log_ratio: float
    p: float


_WITHIN: Final = _Held(0.0, 1.0)
"""Result of a comparison whose difference is within the margin, whatever its size."""


def find(logs: Sequence[float], margin: float) -> list[Change]:
    """Return the lasting changes of a figure by more than a margin, oldest first.

    logs: logarithm of the figure in each run, oldest run first. margin: tolerated change as a share (0.05).
    """
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
    """Return the change with the least p among those that begin at one of the `length` runs from index `at` on.

    start: index of the first run since the last change.
    """
    runs = len(series.logs)
    held = {
        (place, shorter): _held(series, start, place, shorter)
        for place in range(at, min(at + length, runs - LEAST + 1))
        for shorter in _lengths(min(length, runs - place))
    }
    (best, _), shown = min(held.items(), key=lambda item: item[1].p)
    return Change(best, shown.log_ratio, min(1.0, shown.p * series.tests))


def _lengths(left: int) -> list[int]:
    """Return LEAST, 2 x LEAST, 4 x LEAST and so on, up to `left`, the number of remaining runs."""
    return [LEAST << double for double in range((left // LEAST).bit_length())]


def _held(series: _Series, start: int, at: int, length: int) -> _Held:
    """Compare the values from `start` up to but not including `at` with the `length` values from `at` on.

    Returns the change of the median logarithm, and the two-sided p-value of a change by more than `series.bound`,
    before Bonferroni's correction. Returns _WITHIN (change 0, p 1) if the change is not above that bound.
    """
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
