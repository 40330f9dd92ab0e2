"""Median of a GPU's log ratios to a baseline, with a t-interval. Pure.

The spread is the median absolute deviation, so a single cell that a driver moved by 16 % hardly matters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from orchestrator.stats import student
from orchestrator.stats.pooled import LEAST_VARIANCE
from orchestrator.stats.stragglers import ALPHA

LEAST_CELLS: Final = 4
_OF_A_MEDIAN: Final = math.sqrt(math.pi / 2)
"""Standard error of a median divided by that of a mean, for a normal distribution."""
_OF_A_DEVIATION: Final = 1.4826
"""Standard deviation divided by the median absolute deviation, for a normal distribution."""


@dataclass(frozen=True, kw_only=True)
class BaselineEffect:
    """Rate relative to the baseline, with its 90 % interval. p: p-value of a deficit beyond the margin."""

    ratio: float
    low: float
    high: float
    p: float


def effect(ratios: Sequence[float], margin: float) -> BaselineEffect | None:
    """Return a GPU's rate relative to the baseline; None for fewer than four cells.

    ratios: rate over rate of the baseline, above zero, one for each cell. margin: tolerated deficit, as a share.
    """
    if len(ratios) < LEAST_CELLS:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    middle, degrees = median(logs), len(logs) - 1
    spread = _OF_A_DEVIATION * median(abs(value - middle) for value in logs)
    error = _OF_A_MEDIAN * max(spread, math.sqrt(LEAST_VARIANCE)) / math.sqrt(len(logs))
    reach = student.quantile(1 - ALPHA, degrees) * error
    return BaselineEffect(
        ratio=math.exp(middle),
        low=math.exp(middle - reach),
        high=math.exp(middle + reach),
        p=student.tail((math.log1p(-margin) - middle) / error, degrees),
    )
