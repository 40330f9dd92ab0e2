"""Effect sizes of two samples of launches, beside the ratio. They decide nothing. Pure.

Mann-Whitney needs five launches a side: with three, its smallest p is 0.10.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean
from typing import Final

LEAST_FOR_MANN_WHITNEY: Final = 5
_EXACT_UP_TO: Final = 40
"""Values of both sides together. Beyond, the normal approximation differs from the exact p in the third digit."""


def cohens_d(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Difference of the means over the pooled standard deviation; None where that is zero, or a side has one value."""
    if min(len(before), len(after)) < 2:
        return None
    means = fmean(before), fmean(after)
    squares = math.fsum((value - means[0]) ** 2 for value in before)
    squares += math.fsum((value - means[1]) ** 2 for value in after)
    deviation = math.sqrt(squares / (len(before) + len(after) - 2))
    return (means[1] - means[0]) / deviation if deviation > 0 else None


def cliffs_delta(before: Sequence[float], after: Sequence[float]) -> float | None:
    """The share of pairs in which `after` is larger less the share in which it is smaller; None for an empty side."""
    if not before or not after:
        return None
    ordered = sorted(before)
    larger = sum(bisect_left(ordered, value) for value in after)
    smaller = sum(len(ordered) - bisect_right(ordered, value) for value in after)
    return (larger - smaller) / (len(before) * len(after))


def mann_whitney_p(before: Sequence[float], after: Sequence[float]) -> float | None:
    """The two-sided p of the rank test: exact where the values are few, ties included; None for a side below five."""
    if min(len(before), len(after)) < LEAST_FOR_MANN_WHITNEY:
        return None
    ranks = _doubled_ranks([*before, *after])
    observed = sum(ranks[: len(before)])
    if len(ranks) > _EXACT_UP_TO:
        return _by_normal(ranks, len(before), observed)
    sums = _sums_of(len(before), ranks)
    off = abs(observed - sum(ranks) * len(before) / len(ranks))
    far = sum(ways for total, ways in sums.items() if abs(total - sum(ranks) * len(before) / len(ranks)) >= off - 1e-9)
    return far / sum(sums.values())


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, so that those of ties, which share their middle, are whole."""
    counts = Counter(values)
    ends = dict(zip(sorted(counts), accumulate(counts[value] for value in sorted(counts)), strict=True))
    return [2 * ends[value] - counts[value] + 1 for value in values]


def _sums_of(size: int, ranks: Sequence[int]) -> Counter[int]:
    """In how many ways `size` of the ranks have each sum."""
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for total, number in ways[chosen - 1].items():
                ways[chosen][total + rank] += number
    return ways[size]


def _by_normal(ranks: Sequence[int], size: int, observed: int) -> float:
    """By the normal distribution, corrected for ties and for continuity."""
    whole, other = len(ranks), len(ranks) - size
    ties = math.fsum(number**3 - number for number in Counter(ranks).values())
    variance = size * other / 12 * (whole + 1 - ties / (whole * (whole - 1)))
    if variance <= 0:
        return 1.0
    off = abs(observed - size * (whole + 1)) / 2
    return min(1.0, math.erfc(max(off - 0.5, 0) / math.sqrt(2 * variance)))
