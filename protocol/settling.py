"""Whether times have settled: the trend of block medians, compared with their own noise. Pure.

    warm-up: block │ block │ block │ … settled_blocks, or the cap     ends it
    report:  the blocks that had settled │ all measured blocks        lasting_change: the result is unsettled

A GPU's clock falls for seconds to minutes while it heats up. Noise hides that in the halves of a short window, but
not in the slope over all blocks.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles
from typing import Final

from protocol.intervals import student_t_975

LEAST_BLOCKS: Final = 8
_STEP: Final = 4
_FALL: Final = 0.03
_SLOWEST_S: Final = 60.0
_CAPS: Final = 6.0
"""A fall by _FALL within _SLOWEST_S, or within _CAPS times the warm-up's cap, must be ruled out."""
_LEAST_CHANGE: Final = 0.001
_CERTAIN: Final = 1.5
"""Multiple of the interval's half-width: a steady series exceeds it in less than 1 %."""
_OUTLIER: Final = 3.0
_MOST_RESEMBLANCE: Final = 0.95


@dataclass(frozen=True)
class Trend:
    """Relative change from the first block to the last along their line, and half of its 95 % interval."""

    change: float
    half_width: float


def trend(medians_ms: Sequence[float]) -> Trend:
    """Trend of at least LEAST_BLOCKS positive medians; the interval allows for lag-1 autocorrelation of their noise.

    Noise is the difference from a parabola, so that an exponential fall does not count as noise.
    """
    logs = _clipped([math.log(value) for value in medians_ms])
    count = len(logs)
    centre, mean = (count - 1) / 2, fmean(logs)
    places = [place - centre for place in range(count)]
    squares = sum(place * place for place in places)
    bends = [place * place - squares / count for place in places]
    slope = _along(places, logs)
    bend = _along(bends, logs)
    rests = [
        value - mean - slope * place - bend * curve for place, curve, value in zip(places, bends, logs, strict=True)
    ]
    variance = sum(map(operator.mul, rests, rests))
    if variance <= 0:
        return Trend(slope * count, 0.0)
    found = sum(map(operator.mul, rests, rests[1:])) / variance
    resemblance = min(max(found + (1 + 5 * found) / count, 0.0), _MOST_RESEMBLANCE)
    free = max(count * (1 - resemblance) / (1 + resemblance) - 3, 2.0)
    error = math.sqrt(variance / (count - 3) / squares * (1 + resemblance) / (1 - resemblance))
    return Trend(slope * count, student_t_975(max(int(free), 2)) * error * count)


def settled_blocks(medians_ms: Sequence[float], block_s: float, cap_s: float) -> int:
    """Number of blocks at the end of the warm-up that rule out a slow fall; 0 for none. cap_s: of the warm-up."""
    if min(medians_ms) <= 0:
        return len(medians_ms)  # below the clock's resolution
    most_per_s = _FALL / min(_CAPS * cap_s, _SLOWEST_S)
    for length in range(LEAST_BLOCKS, len(medians_ms) + 1, _STEP):
        found = trend(medians_ms[-length:])
        if abs(found.change) + found.half_width <= most_per_s * block_s * length:
            return length
    return 0


def lasting_change(warm_up_ms: Sequence[float], settled: int, measured_ms: Sequence[float]) -> float | None:
    """Relative change that lasted through the end of the warm-up and the measurement; None if there was none.

    Takes medians of blocks. settled: how many of the warm-up count; 0 for all but its first quarter. A falling clock
    makes times longer: above zero. None for fewer than LEAST_BLOCKS.
    """
    kept = settled or len(warm_up_ms) - len(warm_up_ms) // 4
    medians_ms = [*warm_up_ms[len(warm_up_ms) - kept :], *measured_ms]
    if len(medians_ms) < LEAST_BLOCKS or min(medians_ms) <= 0:
        return None
    found = trend(medians_ms)
    certain = abs(found.change) > _CERTAIN * found.half_width and abs(found.change) >= _LEAST_CHANGE
    return found.change if certain else None


def _along(shape: Sequence[float], values: Sequence[float]) -> float:
    """Coefficient of a shape of mean zero in the values."""
    return math.fsum(map(operator.mul, shape, values)) / math.fsum(map(operator.mul, shape, shape))


def _clipped(values: Sequence[float]) -> list[float]:
    """Move outliers to the edge of the accepted range, so that one disturbed block does not matter."""
    low, _, high = quantiles(values, n=4)
    reach = _OUTLIER * (high - low)
    return [min(max(value, low - reach), high + reach) for value in values]
