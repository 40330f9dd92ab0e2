"""Verdicts on the cells of two runs: is one faster or slower by more than a margin? Pure.

    rates of launches, before and after ── logarithms ── variance of a launch, pooled over cells (pooled.py) or prior
      + variance of two sessions, which all cells share
      ├─ beyond the margin, Holm over the cells ──────────────▶ FASTER | SLOWER (unsteady times: PROBABLY SLOWER)
      ├─ 90 % interval inside the margin ─────────────────────▶ SAME
      ├─ no change shown, and the measured one is small ──────▶ NO CHANGE SEEN, with the slow-down that is ruled out
      └─ else ────────────────────────────────────────────────▶ INCONCLUSIVE, with the launches that a verdict needs
    all cells of a group ──▶ geometric mean of the ratios, with its interval and a verdict

The launch is the unit: a test on pooled iterations sees a difference 71 % of the time where there is none. Three
launches a side show their spread. With fewer, a pair with a prior also uses other cells or this prior. The margin is
symmetric on the logarithm.
"""

import enum
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Final, NamedTuple

from orchestrator.stats import pooled, student
from orchestrator.stats.pooled import Variance
from orchestrator.stats.stragglers import ALPHA, holm

MOST_LAUNCHES: Final = 100
"""Most launches per run to recommend. More would only show differences smaller than those from day to day."""
LEAST_LAUNCHES: Final = 3
"""Fewest launches of each run for a verdict without a prior. Two underestimate their spread too often."""
LARGEST_UNSEEN: Final = 0.1
"""Largest measured change, as a share, with NO CHANGE SEEN; or the margin, if larger. For a speed-up: or the prior."""
_WIDEST_UNSEEN: Final = 0.25
"""Largest half-width of a 95 % interval with NO CHANGE SEEN, as a log difference (22 %)."""
_POWER: Final = 0.8
_ALPHA_CELLS: Final = 0.0005
"""Error probability after Holm's correction. Really 1 % if spreads vary by cell [sim, docs/method-reference.md]."""
_ALPHA_GROUP: Final = 0.008
_ALPHA_UNSTEADY: Final = 0.004
"""Error probability after Holm's correction for unsteady cells. Half of it is for SLOWER: 1 % at most for all cells."""
_MOST_DEGREES: Final = 1e6


class ChangeVerdict(enum.StrEnum):
    """Verdict on a cell in two runs, by its margin (tolerated change).

    FASTER, SLOWER: changed by more than the margin. PROBABLY_SLOWER: as SLOWER, but the times are unsteady. SAME: the
    90 % interval is inside the margin. NO_CHANGE: no change is shown, and the measured one is small. INCONCLUSIVE: none
    of these. Two verdicts are given by compare/, not by this module. NOT_COMPARABLE: more than the speed differs, or a
    cell has no usable result. WRONG: only the second result is wrong.
    """

    WRONG = "WRONG"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    PROBABLY_SLOWER = "PROBABLY SLOWER"
    SAME = "SAME"
    NO_CHANGE = "NO CHANGE SEEN"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_COMPARABLE = "NOT COMPARABLE"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same cell in two runs. before, after: rates of its launches, above zero; higher is faster.

    margin: tolerated change as a share (0.05). prior: assumed standard deviation of the logarithm of a launch's rate,
    used if a run has fewer than three launches and no other cell has enough. Cells with the same prior share their
    variances (pooled.py). session: standard deviation of the logarithm between sessions. trusted: False if unsteady
    times hide the spread of the launches. Then a change must be significant with the prior and with the variance of the
    launches.
    """

    before: Sequence[float]
    after: Sequence[float]
    margin: float
    prior: float | None = None
    session: float = 0.0
    trusted: bool = True

    @functools.cached_property
    def logs(self) -> tuple[list[float], list[float]]:
        """Logarithms of the rates, before and after. Raises ValueError for a rate that is not above zero."""
        return _logs(self.before), _logs(self.after)

    @functools.cached_property
    def log_ratio(self) -> float:
        """Logarithm of the ratio of the geometric means, after over before.

        Raises ValueError for a rate that is not above zero.
        """
        before, after = self.logs
        return fmean(after) - fmean(before)

    @property
    def launches(self) -> int:
        """Number of launches in the run that has fewer of them."""
        return min(len(self.before), len(self.after))

    @property
    def needs_prior(self) -> bool:
        """Whether the prior is needed, as launches are too few or too unsteady to show their spread."""
        return not self.trusted or self.launches < LEAST_LAUNCHES


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Verdict on a pair. ratio: rate after divided by rate before.

    low, high: its 95 % interval. low_90, high_90: its 90 % interval. p: p-value of a change beyond the margin, after
    Holm over the cells. All are None, and the verdict INCONCLUSIVE, if the variance is unknown. wanted: launches per
    run that should give a verdict; 0 if there is a verdict or no number helps, None if more than MOST_LAUNCHES.
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
class GroupMean:
    """Geometric mean, over several cells, of the ratio (rate after / rate before). Above 1 is faster.

    low, high: its 95 % interval, if known. cells: number of cells. verdict: FASTER or SLOWER if the mean changed by
    more than the average margin (tolerated change) of the cells, else None. Always None for a single cell.
    """

    ratio: float
    low: float | None
    high: float | None
    cells: int
    verdict: ChangeVerdict | None = None


class _Estimate(NamedTuple):
    """Estimated log ratio (after / before) of a pair, or mean log ratio of several pairs.

    of_launches: variance of the log rate between launches; 0 for a mean. of_sessions: the part of `variance` due to the
    difference of two sessions. variance, degrees: variance of `log_ratio` due to launches and sessions, and its degrees
    of freedom.
    """

    log_ratio: float
    of_launches: float
    of_sessions: float
    variance: float
    degrees: float

    def reach(self, share: float) -> float:
        """Return half the width of an interval of the log ratio. share: one-sided, 0.975 for a 95 % interval."""
        return student.quantile(share, self.degrees) * math.sqrt(self.variance)

    def chance(self, bound: float) -> float:
        """Return the two-sided p-value for a log ratio beyond ±`bound`: small if it is clearly outside this range."""
        beyond = abs(self.log_ratio) - bound
        return min(1.0, 2 * student.tail(beyond / math.sqrt(self.variance), self.degrees))


def judge(pairs: Sequence[Pair]) -> list[Judged]:
    """Return a verdict for each pair, in order, after Holm's correction over `pairs`.

    Raises ValueError for a rate that is not above zero.
    """
    variances = _of_launches(pairs)
    known = {
        index: _estimate(pairs[index], _widest(pairs[index], found)) for index, found in enumerate(variances) if found
    }
    beyond = holm({index: _beyond(pairs[index], variances[index]) for index in known})
    changed = holm({index: one.chance(0.0) for index, one in known.items()})
    return [
        _judged(pair, known[index], beyond[index], len(known), changed=changed[index] <= ALPHA)
        if index in known
        else without_verdict(pair, LEAST_LAUNCHES)
        for index, pair in enumerate(pairs)
    ]


def _beyond(pair: Pair, variances: Sequence[Variance]) -> float:
    """Return the p-value of a pair's change beyond its margin: the largest over the given variances of a launch.

    variances: at least one. The change must be significant with each of them (see `_of_launches`).
    """
    return max(_estimate(pair, one).chance(_bound(pair.margin)) for one in variances)


def without_verdict(pair: Pair, wanted: int) -> Judged:
    """Return the Judged of a pair without a verdict: INCONCLUSIVE, its ratio, and `wanted`.

    wanted: launches per run that should give a verdict. Raises ValueError for a rate that is not above zero.
    """
    return Judged(verdict=ChangeVerdict.INCONCLUSIVE, ratio=math.exp(pair.log_ratio), wanted=wanted)


def group_means(groups: Sequence[Sequence[Pair]]) -> list[GroupMean]:
    """Return the geometric mean of the ratios (after / before) in each group of cells. All cells weigh the same.

    Every group needs at least one pair. The verdicts are those after Holm's correction over the groups.
    """
    variances = [_of_mean(pairs) for pairs in groups]
    bounds = [fmean([_bound(pair.margin) for pair in pairs]) for pairs in groups]
    tests = {
        index: one.chance(bounds[index])
        for index, one in enumerate(variances)
        if one is not None and len(groups[index]) > 1
    }
    shown = {index for index, p in holm(tests).items() if p <= _ALPHA_GROUP}
    return [
        _group_mean(pairs, estimate, shown=index in shown)
        for index, (pairs, estimate) in enumerate(zip(groups, variances, strict=True))
    ]


def _group_mean(pairs: Sequence[Pair], estimate: _Estimate | None, *, shown: bool) -> GroupMean:
    middle = fmean([pair.log_ratio for pair in pairs])
    if estimate is None:
        return GroupMean(math.exp(middle), None, None, len(pairs))
    reach = estimate.reach(1 - ALPHA / 2)
    verdict = (ChangeVerdict.FASTER if middle > 0 else ChangeVerdict.SLOWER) if shown else None
    return GroupMean(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach), len(pairs), verdict)


def _of_mean(pairs: Sequence[Pair]) -> _Estimate | None:
    """Return the mean over cells of log(rate after / rate before), all with the same weight.

    None if the variance of any cell is unknown. A cell has the variance of its own launches. If it needs the prior, it
    has the one of its known variances that gives the widest interval. Cells with the same `session` share one
    difference between the sessions, so more of them do not reduce its variance.
    """
    parts: list[Variance] = []
    for pair, found in zip(pairs, _of_launches(pairs), strict=True):
        own = _own(pair)
        if found and pair.prior is not None and pair.needs_prior:
            own = _widest(pair, found if pair.trusted or own is None else (found[0], own))
        if own is None:
            return None
        parts.append(Variance(own.value * _share_of_launch(pair), own.degrees))
    shares: dict[float, int] = {}
    for pair in pairs:
        shares[pair.session] = shares.get(pair.session, 0) + 1
    sessions = math.fsum(2 * (number * session) ** 2 for session, number in shares.items())
    variance, degrees = _sum([*parts, Variance(sessions, math.inf)])
    of_all = len(pairs) ** 2
    return _Estimate(
        fmean([pair.log_ratio for pair in pairs]), 0.0, sessions / of_all, variance / of_all, _stepped(degrees)
    )


def _logs(rates: Sequence[float]) -> list[float]:
    if not rates or not all(map(math.isfinite, rates)) or min(rates) <= 0:
        raise ValueError(f"rates must be above zero and finite, got {list(rates)[:5]}")
    return [math.log(rate) for rate in rates]


def _share_of_launch(pair: Pair) -> float:
    return 1 / len(pair.before) + 1 / len(pair.after)


def _estimate(pair: Pair, launch: Variance) -> _Estimate:
    sessions = 2 * pair.session**2
    of_launches = Variance(launch.value * _share_of_launch(pair), launch.degrees)
    variance, degrees = _sum([of_launches, Variance(sessions, math.inf)])
    return _Estimate(pair.log_ratio, launch.value, sessions, variance, _stepped(degrees))


def _sum(parts: Sequence[Variance]) -> tuple[float, float]:
    """Return variance and degrees of freedom of a sum of independent parts (Welch-Satterthwaite)."""
    variance = math.fsum(part.value for part in parts)
    below = math.fsum(part.value**2 / part.degrees for part in parts)
    return variance, variance**2 / below if below > 0 else math.inf


def _stepped(degrees: float) -> float:
    """Round degrees of freedom down by up to 1 %, so that 100,000 cells need few quantiles."""
    return max(1.0, 1.01 ** math.floor(math.log(min(degrees, _MOST_DEGREES)) / math.log(1.01)))


def _own(pair: Pair) -> Variance | None:
    return pooled.of_launches(pair.logs)


def _of_launches(pairs: Sequence[Pair]) -> list[tuple[Variance, ...]]:
    """Return the variances of a launch for each pair. A change counts only if it is significant with each of them.

    () if unknown. Two variances if neither the prior nor the launches suffice alone.
    """
    found: dict[int, tuple[Variance, ...]] = {}
    for prior in dict.fromkeys(pair.prior for pair in pairs):
        found |= _of_one_prior({index: pair for index, pair in enumerate(pairs) if pair.prior == prior}, prior)
    return [found[index] for index in range(len(pairs))]


def _of_one_prior(pairs: Mapping[int, Pair], prior: float | None) -> dict[int, tuple[Variance, ...]]:
    """Return index of a pair → its variances of a launch, () if unknown. All pairs have this prior.

    An own variance is that of the pair's launches, shrunk as in pooled.py. Which variances a pair gets:

        no prior, or enough launches   its own variance
        few launches                   its own variance, and the common variance of the pairs with enough launches; if
                                       no pair has enough, the prior instead
        not trusted, with a prior      the prior, and its own variance, shrunk only among pairs that are not trusted
    """
    own = {index: one for index, pair in pairs.items() if (one := _own(pair)) is not None}
    steady = {index: one for index, one in own.items() if pairs[index].trusted and pairs[index].launches > 1}
    shrunk = _shrunk(steady)
    if prior is None:
        return {index: (shrunk[index],) if index in shrunk else () for index in pairs}
    given = Variance(prior**2, math.inf)
    enough = [one for index, one in steady.items() if pairs[index].launches >= LEAST_LAUNCHES]
    usual = pooled.common(enough) if enough else given
    untrusted = _shrunk({index: one for index, one in own.items() if not pairs[index].trusted})
    return {
        index: (given, untrusted.get(index, given))
        if not pair.trusted
        else (shrunk[index],)
        if pair.launches >= LEAST_LAUNCHES
        else (usual, shrunk.get(index, usual))
        for index, pair in pairs.items()
    }


def _shrunk(own: Mapping[int, Variance]) -> dict[int, Variance]:
    """Shrink the variances of cells towards the common variance. Those that are still smaller are raised to it.

    They are raised because few launches may agree by chance. own: index of a pair → variance of its own launches.
    Returns the new variances by the same indices.
    """
    least = pooled.common(list(own.values())).value if own else 0.0
    return {
        index: Variance(max(one.value, least), one.degrees)
        for index, one in zip(own, pooled.shrunk(list(own.values())), strict=True)
    }


def _widest(pair: Pair, launches: Sequence[Variance]) -> Variance:
    """Return the one of several variances that gives the widest 95 % interval of the pair's log ratio.

    launches: the variances of a launch to choose from, at least one. The interval includes the sessions of the pair.
    """
    return max(launches, key=lambda one: _estimate(pair, one).reach(1 - ALPHA / 2))


def _bound(share: float) -> float:
    return -math.log1p(-share)


def _judged(pair: Pair, estimate: _Estimate, p: float, tests: int, *, changed: bool) -> Judged:
    wide, narrow = estimate.reach(1 - ALPHA / 2), estimate.reach(1 - ALPHA)
    log_ratio = estimate.log_ratio
    verdict = _verdict(pair, log_ratio, narrow, p, unseen=not changed and wide <= _most_unseen(pair))
    return Judged(
        verdict=verdict,
        ratio=math.exp(log_ratio),
        low=math.exp(log_ratio - wide),
        high=math.exp(log_ratio + wide),
        low_90=math.exp(log_ratio - narrow),
        high_90=math.exp(log_ratio + narrow),
        p=p,
        wanted=_wanted(estimate, tests, pair) if verdict is ChangeVerdict.INCONCLUSIVE else 0,
    )


def _most_unseen(pair: Pair) -> float:
    """Return the largest half-width of the log ratio's 95 % interval with which NO CHANGE SEEN may be given.

    For a pair that needs the prior, it may be larger than _WIDEST_UNSEEN.
    """
    if not pair.needs_prior:
        return _WIDEST_UNSEEN
    of_one = math.sqrt(2 * ((pair.prior or 0.0) ** 2 + pair.session**2))
    return max(_WIDEST_UNSEEN, 1.05 * NormalDist().inv_cdf(1 - ALPHA / 2) * of_one)


def _verdict(pair: Pair, log_ratio: float, narrow: float, p: float, *, unseen: bool) -> ChangeVerdict:
    """Return the verdict on a pair.

    log_ratio: logarithm of (rate after / rate before). narrow: half the width of its 90 % interval. p: p-value of a
    change beyond the margin, after Holm. unseen: True if no change is significant, and the interval is narrow enough to
    exclude a large change.
    """
    bound = _bound(pair.margin)
    if p <= _ALPHA_CELLS and pair.trusted:
        return ChangeVerdict.FASTER if log_ratio > 0 else ChangeVerdict.SLOWER
    if p <= _ALPHA_UNSTEADY and not pair.trusted and log_ratio < 0:
        return ChangeVerdict.PROBABLY_SLOWER
    if abs(log_ratio) + narrow < bound:
        return ChangeVerdict.SAME
    slower, faster = _bound(LARGEST_UNSEEN), _bound(max(LARGEST_UNSEEN, pair.prior or 0.0))
    if unseen and -max(bound, slower) <= log_ratio <= max(bound, faster):
        return ChangeVerdict.NO_CHANGE
    return ChangeVerdict.INCONCLUSIVE


def _wanted(estimate: _Estimate, tests: int, pair: Pair) -> int | None:
    """Return the launches per run that should give a verdict, with 80 % power. None: more than MOST_LAUNCHES.

    0: no number helps, because the pair is not trusted. tests: number of cells over which Holm's correction goes.
    """
    if not pair.trusted:
        return 0
    if pair.launches < LEAST_LAUNCHES and pair.prior is not None:
        return LEAST_LAUNCHES
    gap = abs(estimate.log_ratio) - _bound(pair.margin)
    error, miss = (_ALPHA_CELLS / 2 / tests, 1 - _POWER) if gap > 0 else (ALPHA, (1 - _POWER) / 2)
    reach = student.quantile(1 - error, estimate.degrees) + student.quantile(1 - miss, estimate.degrees)
    room = (gap / reach) ** 2 - estimate.of_sessions
    if room <= 0 or 2 * estimate.of_launches > room * MOST_LAUNCHES:
        return None
    return max(math.ceil(2 * estimate.of_launches / room), pair.launches + 1)
