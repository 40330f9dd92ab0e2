"""Percentiles, outliers and drift of a series of measured times."""

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

import msgspec

MIN_FOR_P95: Final = 20
"""Fewest values for a 95th percentile: with fewer, it is nearly the largest value."""
MIN_FOR_P99: Final = 300
"""Fewest values for a 99th percentile: with fewer, it depends on the four largest values at most."""
MIN_FOR_P99_9: Final = 3_000
MIN_FOR_DRIFT: Final = 10
DRIFT_LIMIT_PERCENT: Final = 0.5
_FAR_OUT: Final = 3.0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a series of times. A percentile is None below MIN_FOR_P95, MIN_FOR_P99 or MIN_FOR_P99_9 times.

    std_ms: sample standard deviation, 0 for one time. usual_ms: range of usual times, (first quartile - 3 interquartile
    ranges, third quartile + 3 interquartile ranges). outliers: number of times outside this range.
    """

    count: int
    mean_ms: float
    std_ms: float
    min_ms: float
    max_ms: float
    p50_ms: float
    p95_ms: float | None
    p99_ms: float | None
    p99_9_ms: float | None
    outliers: int
    usual_ms: tuple[float, float]


def summarise(times_ms: Sequence[float]) -> Summary | None:
    """Return the summary of a series of times. None for an empty series."""
    if not times_ms:
        return None
    ordered = sorted(times_ms)
    mean = fmean(ordered)
    deviations = [value - mean for value in ordered]
    squares = math.fsum(map(operator.mul, deviations, deviations))
    least, most = _usual(ordered)
    return Summary(
        count=len(ordered),
        mean_ms=mean,
        std_ms=math.sqrt(squares / (len(ordered) - 1)) if len(ordered) > 1 else 0.0,
        min_ms=ordered[0],
        max_ms=ordered[-1],
        p50_ms=percentile(ordered, 50),
        p95_ms=percentile(ordered, 95) if len(ordered) >= MIN_FOR_P95 else None,
        p99_ms=percentile(ordered, 99) if len(ordered) >= MIN_FOR_P99 else None,
        p99_9_ms=percentile(ordered, 99.9) if len(ordered) >= MIN_FOR_P99_9 else None,
        outliers=bisect_left(ordered, least) + len(ordered) - bisect_right(ordered, most),
        usual_ms=(least, most),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile (0 to 100) of at least one value, ascending, interpolated between neighbours."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def drift_percent(times_ms: Sequence[float]) -> float | None:
    """Return the change of the median time from the first half to the second, in percent.

    None for fewer than MIN_FOR_DRIFT times, or if the first median is zero.
    """
    if len(times_ms) < MIN_FOR_DRIFT:
        return None
    half = len(times_ms) // 2
    before, after = median(times_ms[:half]), median(times_ms[half:])
    return (after / before - 1) * 100 if before > 0 else None


def drifting(drift_percent: float | None) -> bool | None:
    """Whether a drift in either direction exceeds DRIFT_LIMIT_PERCENT. None if the drift is unknown."""
    return None if drift_percent is None else abs(drift_percent) > DRIFT_LIMIT_PERCENT


def spread_percent(values: Sequence[float]) -> float | None:
    """Return (largest - smallest) / median in percent. None below two values, or if any is not above zero."""
    if len(values) < 2 or min(values) <= 0:
        return None
    return (max(values) - min(values)) / median(values) * 100


def _usual(ordered: Sequence[float]) -> tuple[float, float]:
    low, high = percentile(ordered, 25), percentile(ordered, 75)
    reach = _FAR_OUT * (high - low)
    return low - reach, high + reach
