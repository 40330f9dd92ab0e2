"""Test whether times have settled: compare the trend of block medians with their noise.

    settled_blocks    trend of the last blocks of the warm-up              ends the warm-up before its longest duration
    lasting_change    trend from those blocks to the last measured one     reported as an unsettled result

A GPU's clock falls for seconds to minutes while it heats up. The slope over all blocks shows this despite noise.
"""

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles
from typing import Final, NamedTuple

from protocol.intervals import student_t_975

LEAST_BLOCKS: Final = 8
_STEP: Final = 4
_FALL: Final = 0.03
_SLOWEST_S: Final = 60.0
_CAPS: Final = 6.0
"""Limit of a slow fall of the clock: settled times rule out _FALL in min(_SLOWEST_S, _CAPS x cap of the warm-up)."""
_LEAST_CHANGE: Final = 0.001
_CERTAIN: Final = 1.5
"""A change above this multiple of Trend.half_width is clear. It happens in less than 1 % of steady series."""
_OUTLIER: Final = 3.0
_MOST_RESEMBLANCE: Final = 0.95


@dataclass(frozen=True)
class Trend:
    """Relative change of times over all blocks (0.02: 2 % longer), and half of its 95 % confidence interval."""

    change: float
    half_width: float


def trend(medians_ms: Sequence[float]) -> Trend:
    """Return the trend of block medians. The caller must pass at least LEAST_BLOCKS of them, all above zero.

    The interval allows for lag-1 autocorrelation of the noise: the differences of the times from a fitted parabola.
    """
    return _trend([math.log(value) for value in medians_ms])


def _trend(of: Sequence[float]) -> Trend:
    logs = _clipped(of)
    count, mean = len(logs), fmean(logs)
    line, curve = _shapes(count)
    slope, bend = line.along(logs), curve.along(logs)
    rests = [
        value - mean - slope * place - bend * height
        for place, height, value in zip(line.values, curve.values, logs, strict=True)
    ]
    variance = sum(map(operator.mul, rests, rests))
    if variance <= 0:
        return Trend(slope * count, 0.0)
    found = sum(map(operator.mul, rests, rests[1:])) / variance
    resemblance = min(max(found + (1 + 5 * found) / count, 0.0), _MOST_RESEMBLANCE)
    free = max(count * (1 - resemblance) / (1 + resemblance) - 3, 2.0)
    error = math.sqrt(variance / (count - 3) / line.squares * (1 + resemblance) / (1 - resemblance))
    return Trend(slope * count, student_t_975(max(int(free), 2)) * error * count)


def settled_blocks(medians_ms: Sequence[float], block_s: float, cap_s: float) -> int:
    """Return the smallest number (8, 12, 16 …) of last warm-up blocks whose trend rules out a slow fall of the clock.

    0 if no number of blocks does, or there are fewer than LEAST_BLOCKS. Ruled out: a change of 3 % within 60 s, or
    within 6 x cap_s if that is shorter. medians_ms: of all blocks so far, at least one. If a median is 0, all blocks
    count as settled. block_s: duration of a block. cap_s: longest duration of the warm-up.
    """
    if min(medians_ms) <= 0:
        return len(medians_ms)  # below the clock's resolution
    most_per_s = _FALL / min(_CAPS * cap_s, _SLOWEST_S)
    logs = [math.log(value) for value in medians_ms]
    for length in range(LEAST_BLOCKS, len(logs) + 1, _STEP):
        found = _trend(logs[-length:])
        if abs(found.change) + found.half_width <= most_per_s * block_s * length:
            return length
    return 0


def lasting_change(warm_up_ms: Sequence[float], settled: int, measured_ms: Sequence[float]) -> float | None:
    """Return the relative change of times from the settled end of warm-up to the end of the measurement.

    0.02 means 2 % longer. warm_up_ms, measured_ms: median time of each block. settled: number of warm-up blocks to use,
    from the end of the warm-up. If it is 0, all warm-up blocks but the first quarter are used. The result is None if
    the change is below 0.1 %, or at most 1.5 times half of its 95 % confidence interval. It is also None if a time is
    0, or if fewer than LEAST_BLOCKS blocks are used.
    """
    kept = settled or len(warm_up_ms) - len(warm_up_ms) // 4
    medians_ms = [*warm_up_ms[len(warm_up_ms) - kept :], *measured_ms]
    if len(medians_ms) < LEAST_BLOCKS or min(medians_ms) <= 0:
        return None
    found = trend(medians_ms)
    certain = abs(found.change) > _CERTAIN * found.half_width and abs(found.change) >= _LEAST_CHANGE
    return found.change if certain else None


class _Shape(NamedTuple):
    """A curve to fit. values: one for each block, with mean zero. squares: the sum of their squares."""

    values: tuple[float, ...]
    squares: float

    def along(self, values: Sequence[float]) -> float:
        return math.fsum(map(operator.mul, self.values, values)) / self.squares


@functools.cache
def _shapes(count: int) -> tuple[_Shape, _Shape]:
    """Return (line, parabola) over `count` blocks: centred and orthogonal, not scaled to length 1."""
    centre = (count - 1) / 2
    places = tuple(place - centre for place in range(count))
    squares = math.fsum(map(operator.mul, places, places))
    bends = tuple(place * place - squares / count for place in places)
    return _Shape(places, squares), _Shape(bends, math.fsum(map(operator.mul, bends, bends)))


def _clipped(values: Sequence[float]) -> Sequence[float]:
    """Return `values`, with outliers moved to _OUTLIER interquartile ranges outside the quartiles."""
    low, _, high = quantiles(values, n=4)
    reach = _OUTLIER * (high - low)
    if low - reach <= min(values) and max(values) <= high + reach:
        return values
    return [min(max(value, low - reach), high + reach) for value in values]
