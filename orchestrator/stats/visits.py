"""Slowdown of a kind of work that runs only now and then: four times in an hour, sixteen in a night. Pure.

    windows of one kind on one GPU ── parted where it paused ──▶ visits, a median each
    the last fifth of the visits, two at least, less the first ──▶ change, of each GPU
    residuals of each GPU's visits ── their variance, shrunk towards that of all GPUs ──▶ intervals of all changes

Residuals are of a line, or of one step where that leaves less: for five visits or more the variance comes out up to 15
% too small [sim]. Autocorrelation widens the intervals from eight visits on, as in trend.py.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Final

from orchestrator.stats import pooled, student, trend
from orchestrator.stats.pooled import LEAST_VARIANCE, Variance
from orchestrator.stats.trend import ENDS, Interval, Point
from orchestrator.stats.windows import WINDOW_NS, Window

LEAST_VISITS: Final = 4
_FITTED: Final = 3
"""Degrees of freedom that a step takes: its two levels, and its place."""
_AT_AN_END: Final = 2
"""Visits at an end: one slow visit, first or last, is no change."""
_FOR_AUTOCORRELATION: Final = 8
_PAUSE: Final = 3
"""Missing windows that part two visits: one is missing where a launch paused, or was followed by another."""
_HOURS: Final = WINDOW_NS / 3.6e12


def visits(windows: Sequence[Window]) -> list[Point]:
    """The median of each visit at its middle, in hours. windows: of one kind on one GPU, in order of number."""
    parted: list[list[Window]] = []
    for window in windows:
        if not parted or window.number - parted[-1][-1].number > _PAUSE:
            parted.append([])
        parted[-1].append(window)
    return [Point(fmean(one.number for one in own) * _HOURS, median(one.rate for one in own)) for own in parted]


def changes(series: Mapping[str, Sequence[Point]], confidence: float) -> dict[str, Interval]:
    """Change of each GPU with four or more visits, in order of time. confidence: of each end of an interval."""
    enough = {gpu: points for gpu, points in series.items() if len(points) >= LEAST_VISITS}
    if not enough:
        return {}
    rests = {gpu: trend.rest(points, least=_AT_AN_END)[0] for gpu, points in enough.items()}
    alike = [own for own in rests.values() if len(own) >= _FOR_AUTOCORRELATION]
    widened = trend.widening(alike) if alike else 1.0
    variances = pooled.shrunk([_variance(own) for own in rests.values()])
    found = {}
    for (gpu, points), variance in zip(enough.items(), variances, strict=True):
        at_an_end = max(_AT_AN_END, round(ENDS * len(points)))
        values = [point.value for point in points]
        change = fmean(values[-at_an_end:]) - fmean(values[:at_an_end])
        error = math.sqrt(variance.value * widened * 2 / at_an_end)
        reach = student.quantile(confidence, variance.degrees) * error
        found[gpu] = Interval(change, change - reach, change + reach)
    return found


def _variance(rest: Sequence[float]) -> Variance:
    degrees = len(rest) - _FITTED
    return Variance(max(math.fsum(value**2 for value in rest) / degrees, LEAST_VARIANCE), degrees)
