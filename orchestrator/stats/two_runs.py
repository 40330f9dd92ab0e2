"""Cells that are faster or slower in one run than in another, by more than a margin. Pure.

    rates of launches, before and after ── logarithms ── variance, pooled over the cells of each run (pooled.py)
      ├─ each cell: Welch, against the margin ── Holm over the cells ──▶ FASTER | SLOWER
      ├─ each cell: two one-sided tests, that is its 90 % interval inside the margin ──▶ SAME
      └─ neither ──▶ INCONCLUSIVE, with how many launches would be needed
    all cells together, each with its own variance ──▶ geometric mean of the ratios, with its interval

The launch is the unit: a test on pooled iterations sees a difference 71 % of the time where there is none. The margin
is symmetric on the logarithm. Differences between sessions (reboots, days) are in no interval.
"""

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from orchestrator.stats import pooled, student
from orchestrator.stats.pooled import Variance
from orchestrator.stats.siblings import ALPHA, holm

MOST_LAUNCHES: Final = 100
"""Most launches to recommend: more would show less than what changes from day to day."""
LEAST_LAUNCHES: Final = 3
_POWER: Final = 0.8


class ChangeVerdict(enum.StrEnum):
    """Verdict of a cell. NOT_COMPARABLE is given by compare/, where more than the speed differs."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_COMPARABLE = "NOT COMPARABLE"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same cell in two runs. Rates of launches, above zero, more is faster. margin: a share, 0.01 is 1 %."""

    before: Sequence[float]
    after: Sequence[float]
    margin: float


@dataclass(frozen=True, kw_only=True)
class Judged:
    """ratio: of the rates, after over before. low, high: 95 %; low_90, high_90: 90 %; None for one launch a side.

    p: beyond the margin, after Holm over the cells. wanted: launches a side that should settle it; 0 where settled,
    None where MOST_LAUNCHES would not do.
    """

    verdict: ChangeVerdict
    ratio: float
    low: float | None = None
    high: float | None = None
    low_90: float | None = None
    high_90: float | None = None
    p: float | None = None
    wanted: int | None = 0


@dataclass(frozen=True)
class Together:
    """Geometric mean of the ratios of several cells, with its 95 % interval where there is one."""

    ratio: float
    low: float | None
    high: float | None
    cells: int


class _Estimate(NamedTuple):
    """Log of a ratio. of_launches: variance of a launch on both sides together; variance, degrees: of the log ratio."""

    log_ratio: float
    of_launches: float
    variance: float
    degrees: float

    def reach(self, share: float) -> float:
        """Half of the interval that leaves 1 - `share` on each side."""
        return student.quantile(share, self.degrees) * math.sqrt(self.variance)


def judge(pairs: Sequence[Pair]) -> list[Judged]:
    """A verdict for each cell, in their order. Raises ValueError for a rate that is not above zero."""
    estimates = _estimates([(_logs(pair.before), _logs(pair.after)) for pair in pairs])
    chances = holm({index: _chance(one, pairs[index].margin) for index, one in enumerate(estimates) if one is not None})
    return [
        without_verdict(pair, LEAST_LAUNCHES)
        if estimate is None
        else _judged(pair, estimate, chances[index], len(chances))
        for index, (pair, estimate) in enumerate(zip(pairs, estimates, strict=True))
    ]


def without_verdict(pair: Pair, wanted: int) -> Judged:
    """The ratio alone. wanted: launches a side for a verdict; 0 where none will bring one. Raises ValueError."""
    ratio = math.exp(fmean(_logs(pair.after)) - fmean(_logs(pair.before)))
    return Judged(verdict=ChangeVerdict.INCONCLUSIVE, ratio=ratio, wanted=wanted)


def together(pairs: Sequence[Pair]) -> Together | None:
    """The geometric mean over the cells, equally weighted, each with its own variance; None for no cell."""
    if not pairs:
        return None
    logs = [(_logs(pair.before), _logs(pair.after)) for pair in pairs]
    middle = fmean([fmean(after) - fmean(before) for before, after in logs])
    parts: list[Variance] = []
    for launches in (side for both in logs for side in both):
        if (own := pooled.of_launches(launches)) is None:
            return Together(math.exp(middle), None, None, len(pairs))
        parts.append(Variance(own.value / len(launches), own.degrees))
    variance, degrees = _sum(parts)
    reach = student.quantile(1 - ALPHA / 2, degrees) * math.sqrt(variance) / len(pairs)
    return Together(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach), len(pairs))


def _logs(rates: Sequence[float]) -> list[float]:
    if not rates or not all(rate > 0 and math.isfinite(rate) for rate in rates):
        raise ValueError(f"rates must be above zero and finite, got {list(rates)[:5]}")
    return [math.log(rate) for rate in rates]


def _estimates(logs: Sequence[tuple[list[float], list[float]]]) -> list[_Estimate | None]:
    """Estimates with variances pooled over the cells of each run; None where a side has one launch."""
    before = _variances([one for one, _ in logs])
    after = _variances([other for _, other in logs])
    found: list[_Estimate | None] = []
    for index, (old, new) in enumerate(logs):
        first, second = before[index], after[index]
        if first is None or second is None:
            found.append(None)
            continue
        parts = Variance(first.value / len(old), first.degrees), Variance(second.value / len(new), second.degrees)
        variance, degrees = _sum(parts)
        found.append(
            _Estimate(
                log_ratio=fmean(new) - fmean(old),
                of_launches=first.value + second.value,
                variance=variance,
                degrees=_stepped(degrees),
            )
        )
    return found


def _sum(parts: Sequence[Variance]) -> tuple[float, float]:
    """Variance of a sum of independent parts, and its degrees of freedom (Welch, Satterthwaite)."""
    variance = math.fsum(part.value for part in parts)
    return variance, variance**2 / math.fsum(part.value**2 / part.degrees for part in parts)


def _stepped(degrees: float) -> float:
    """Round down to steps of 1 %: 100,000 cells then share few quantiles, each slightly too wide."""
    return max(1.0, 1.01 ** math.floor(math.log(degrees) / math.log(1.01)))


def _variances(launches: Iterable[Sequence[float]]) -> list[Variance | None]:
    own = [pooled.of_launches(values) for values in launches]
    known = iter(pooled.shrunk([one for one in own if one is not None]))
    return [None if one is None else next(known) for one in own]


def _bound(margin: float) -> float:
    return -math.log1p(-margin)


def _chance(estimate: _Estimate, margin: float) -> float:
    """Two-sided p of a difference beyond the margin."""
    beyond = abs(estimate.log_ratio) - _bound(margin)
    return min(1.0, 2 * student.tail(beyond / math.sqrt(estimate.variance), estimate.degrees))


def _judged(pair: Pair, estimate: _Estimate, p: float, tests: int) -> Judged:
    wide, narrow = estimate.reach(1 - ALPHA / 2), estimate.reach(1 - ALPHA)
    bound, log_ratio = _bound(pair.margin), estimate.log_ratio
    if p <= ALPHA:
        verdict = ChangeVerdict.FASTER if log_ratio > 0 else ChangeVerdict.SLOWER
    elif abs(log_ratio) + narrow < bound:
        verdict = ChangeVerdict.SAME
    else:
        verdict = ChangeVerdict.INCONCLUSIVE
    return Judged(
        verdict=verdict,
        ratio=math.exp(log_ratio),
        low=math.exp(log_ratio - wide),
        high=math.exp(log_ratio + wide),
        low_90=math.exp(log_ratio - narrow),
        high_90=math.exp(log_ratio + narrow),
        p=p,
        wanted=_wanted(estimate, bound, tests, pair) if verdict is ChangeVerdict.INCONCLUSIVE else 0,
    )


def _wanted(estimate: _Estimate, bound: float, tests: int, pair: Pair) -> int | None:
    """Launches a side that settle this difference, if it is the true one, with a power of 80 %."""
    gap = abs(estimate.log_ratio) - bound
    error, miss = (ALPHA / 2 / tests, 1 - _POWER) if gap > 0 else (ALPHA, (1 - _POWER) / 2)
    reach = student.quantile(1 - error, estimate.degrees) + student.quantile(1 - miss, estimate.degrees)
    if gap == 0 or reach**2 * estimate.of_launches > gap**2 * MOST_LAUNCHES:
        return None
    needed = math.ceil(reach**2 * estimate.of_launches / gap**2)
    return max(needed, min(len(pair.before), len(pair.after)) + 1)
