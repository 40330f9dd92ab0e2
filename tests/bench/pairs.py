"""Are two ways of measuring the same? From interleaved pairs of launches: ratios, their intervals, a verdict."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, median, stdev


def equivalence(what: str, ones: Sequence[float], others: Sequence[float], margin: float) -> str:
    """Mean and median of the ratios of at least two pairs, with 90 % intervals; equivalent within the margin or not."""
    ratios = sorted(one / other for one, other in zip(ones, others, strict=True))
    logs = list(map(math.log, ratios))
    half = student_95(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    outer = rank(len(ratios))
    return "; ".join(
        f"{name} of {what} {middle:.4f}, 90 % interval {lower:.4f} to {upper:.4f}, "
        f"{'equivalent' if lower > 1 - margin and upper < 1 + margin else 'NOT SHOWN'} within {margin:.1%}"
        for name, middle, lower, upper in (
            ("mean", math.exp(fmean(logs)), math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)),
            ("median", median(ratios), ratios[outer], ratios[-1 - outer]),
        )
    )


def rank(number: int) -> int:
    """How many values to leave out at each end so that the rest covers the median with at least 90 % (sign test).

    None of fewer than five, which do not cover it that well.
    """
    tails: list[float] = [
        sum(math.comb(number, below) for below in range(least + 1)) / 2**number for least in range(number)
    ]
    return max(sum(tail <= 0.05 for tail in tails) - 1, 0)


def student_95(freedom: int) -> float:
    """95 % point of Student's t, to 0.1 % from four degrees of freedom on, too small below (Abramowitz, 26.7.5)."""
    z = NormalDist().inv_cdf(0.95)
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return float(sum(term / freedom**power for power, term in enumerate(terms)))
