"""Speed of a GPU relative to its baseline: median over its cells, with a t-interval. Pure.

The spread is estimated by the median absolute deviation, so that a single deviating cell hardly matters.
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
    """Rate of a GPU relative to its baseline: 0.94 is 6 % slower.

    ratio: median over the cells. low, high: its 90 % interval. p: one-sided p-value of a slow-down beyond the margin.
    """

    ratio: float
    low: float
    high: float
    p: float


def effect(ratios: Sequence[float], margin: float) -> BaselineEffect | None:
    """Return the rate of a GPU relative to its baseline, over all cells. None for fewer than four cells.

    ratios: rate of the GPU / rate of the baseline for each cell, above zero. margin: tolerated slow-down (0.05: 5 %).
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
