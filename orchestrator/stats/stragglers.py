"""Verdicts on identical GPUs: is one slower or faster than its siblings by a margin? Pure.

    rates by cell, GPU and launch ── log of each rate against the median of the OTHER GPUs in the same round
      ── in each round the median over the cells ── over the rounds one t-interval, its variance pooled over the GPUs
      ├─ the cells of one bound ──▶ a p for each GPU ── Holm over the GPUs ──▶ STRAGGLER, SUSPECT or OK
      ├─ each cell alone ── Holm over the GPU's cells, for as many GPUs as there are ──▶ STRAGGLER in these cells
      └─ the same p for being faster ── if a minority is faster ──▶ SPLIT, for the minority and the majority

The bound of a cell is the resource that limits its speed. Margins (configs/margins.yaml) depend on it, so a GPU has one
effect for each bound. The p of a GPU is the smallest p of its effects times their number. A cell that is judged alone
has a wider margin: of many cells one differs by chance.
"""

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, fmean, median
from typing import Final, NamedTuple, TypeVar

from orchestrator.stats import student
from orchestrator.stats.pooled import LEAST_VARIANCE

MOST_LAUNCHES: Final = 7
LEAST_GPUS: Final = 4
"""Fewest identical GPUs to compare. With three, the median of two others is a mean, and a slow GPU is inconclusive."""
ALPHA: Final = 0.05
_MAY_BE_OFF: Final = 0.7
"""Assumed error of an effect, as a share of its interval's half-width. It is larger for one in eight effects."""
_Key = TypeVar("_Key")


class Bound(enum.StrEnum):
    """The resource that limits the speed of a cell. Each has its own margin (configs/margins.yaml).

    POWER: the power limit, which lowered the clock in most measurements. CLOCK: the clock, in other computing cells.
    BANDWIDTH: that of memory, or of transfers to and from the host, for probes that measure it.
    """

    POWER = "power"
    CLOCK = "clock"
    BANDWIDTH = "bandwidth"


class SiblingVerdict(enum.StrEnum):
    """Verdict on whether a GPU is slower than its siblings by more than a margin.

    OK: no; a baseline may show this instead of siblings. STRAGGLER: yes. SUSPECT: inconclusive. IN_CELLS: only in
    single cells. SPLIT: a minority of the GPUs is faster, and it is unknown which group is normal. BELOW_BASELINE:
    slower than the baseline. NONE: not comparable.
    """

    OK = "OK"
    SUSPECT = "SUSPECT"
    STRAGGLER = "STRAGGLER"
    IN_CELLS = "STRAGGLER in these cells"
    SPLIT = "SPLIT"
    BELOW_BASELINE = "BELOW BASELINE"
    NONE = "no verdict"

    @property
    def is_finding(self) -> bool:
        """Whether the verdict is a finding: STRAGGLER, IN_CELLS, SPLIT or BELOW_BASELINE."""
        return self in (
            SiblingVerdict.STRAGGLER,
            SiblingVerdict.IN_CELLS,
            SiblingVerdict.SPLIT,
            SiblingVerdict.BELOW_BASELINE,
        )


@dataclass(frozen=True, kw_only=True)
class SiblingCell:
    """A cell and its rates on identical GPUs. rates: GPU → rate of each launch, in order of rounds; higher is faster.

    The rates at the same index are compared. waited: GPUs that waited for the host. Their rates are lower bounds: they
    can only prove that other GPUs are slow.
    """

    name: str
    bound: Bound
    rates: Mapping[str, Sequence[float]]
    waited: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Rate of a GPU relative to the others' median: 0.94 is 6 % slower. low, high: its 90 % interval.

    margin: tolerated slow-down as a share. p: one-sided p-value. A small one shows that the GPU is slower by more than
    the margin. p_faster: the same for a GPU that is faster by more than the margin. cells: number of cells. launches:
    number of launches of the cell that has the fewest.
    """

    ratio: float
    low: float
    high: float
    margin: float
    p: float
    p_faster: float
    cells: int
    launches: int

    @property
    def within(self) -> bool:
        """Whether the whole interval is above 1 - margin, the lowest tolerated rate."""
        return self.low > 1 - self.margin


@dataclass(frozen=True, kw_only=True)
class Sibling:
    """Verdict on one GPU. why: the reason of the verdict, as text.

    ratio, low, high: relative rate over all cells of the GPU, with its 90 % interval. p: p-value of its slow-down,
    after Holm over the GPUs. All four are None without a comparison. effects: bound → effect over the cells of this
    bound. alone: cell → effect in this cell alone. slow_cells: those of `alone` that are slow. wanted: number of
    further launches of each cell that may give a verdict; 0 if none is needed or none would help. in_question: cells
    whose launches would help to decide about a SUSPECT. faster: the faster GPUs, if the verdict is SPLIT.
    """

    gpu: str
    verdict: SiblingVerdict
    why: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    effects: Mapping[Bound, Effect]
    slow_cells: Mapping[str, Effect]
    alone: Mapping[str, Effect] = field(default_factory=dict)
    wanted: int = 0
    in_question: tuple[str, ...] = ()
    faster: frozenset[str] = frozenset()


class _Ratios(NamedTuple):
    cell: SiblingCell
    by_gpu: Mapping[str, Sequence[float]]


class _Alone(NamedTuple):
    bound: Bound
    effect: Effect


class _Effects(NamedTuple):
    whole: Effect
    by_bound: dict[Bound, Effect]
    alone: dict[str, _Alone]

    @property
    def p(self) -> float:
        return len(self.by_bound) * min(effect.p for effect in self.by_bound.values())

    @property
    def p_faster(self) -> float:
        return len(self.by_bound) * min(effect.p_faster for effect in self.by_bound.values())


def judge(cells: Sequence[SiblingCell], margins: Mapping[Bound, float], judgements: int = 1) -> tuple[Sibling, ...]:
    """Return a verdict on each GPU, sorted by name; NONE for a GPU that cannot be compared in any cell.

    margins: every Bound → tolerated slow-down as a share (0.05). judgements: number of calls that judge the same
    GPUs; each p is multiplied by it. Excluded are cells of fewer than four GPUs, and cells with one launch per GPU.
    Raises ValueError for a rate that is not above zero.
    """
    every = [_ratios(cell, margins[cell.bound]) for cell in cells]
    effects = _of_gpus([one for one in every if any(len(own) > 1 for own in one.by_gpu.values())], margins)
    slower = holm({gpu: judgements * own.p for gpu, own in effects.items()})
    faster = holm({gpu: judgements * own.p_faster for gpu, own in effects.items()})
    found = {gpu: _sibling(gpu, own, slower[gpu], judgements * len(effects)) for gpu, own in effects.items()}
    found |= _split(found, {gpu for gpu, p in faster.items() if p <= ALPHA})
    return tuple(
        found.get(gpu)
        or Sibling(gpu=gpu, verdict=SiblingVerdict.NONE, why=_why_not(gpu, cells), effects={}, slow_cells={})
        for gpu in sorted({gpu for cell in cells for gpu in cell.rates})
    )


def holm(chances: Mapping[_Key, float]) -> dict[_Key, float]:
    """Return key → p-value after Holm's correction, at most 1. chances: key → p-value before it."""
    adjusted, least = {}, 0.0
    for done, (name, p) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        least = adjusted[name] = max(least, min(1.0, p * (len(chances) - done)))
    return adjusted


# ── effects ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _log(cell: SiblingCell, gpu: str, rate: float) -> float:
    if not rate > 0 or math.isinf(rate):
        raise ValueError(f"a rate must be above zero and finite: {cell.name} on {gpu} has {rate}")
    return math.log(rate)


def _ratios(cell: SiblingCell, margin: float) -> _Ratios:
    """Return GPU → log(rate / median rate of the other GPUs in the same round) of each of its launches of a cell.

    GPUs that waited for the host have no entry. If too many siblings of a GPU waited (see `_beside`), it has an entry
    only if it is slower on average by more than `margin`, a share (0.05). No entries for a cell of fewer than
    LEAST_GPUS.
    """
    logs = {gpu: [_log(cell, gpu, rate) for rate in own] for gpu, own in cell.rates.items() if own}
    by_gpu = {}
    for gpu, own in logs.items() if len(logs) >= LEAST_GPUS else ():
        if gpu not in cell.waited:
            others, enough = _beside(gpu, cell, logs)
            beside = [logs[other] for other in others]
            # A sibling with fewer launches takes part in further rounds with its first ones.
            ratios = [
                value - median([other[number % len(other)] for other in beside]) for number, value in enumerate(own)
            ]
            if enough or fmean(ratios) < math.log1p(-margin):
                by_gpu[gpu] = ratios
    return _Ratios(cell, by_gpu)


def _beside(gpu: str, cell: SiblingCell, logs: Mapping[str, Sequence[float]]) -> tuple[Sequence[str], bool]:
    """Return the GPUs to compare `gpu` with in a cell, and True if the comparison can prove that `gpu` is OK.

    True if at least LEAST_GPUS - 1 other GPUs did not wait for the host. Then these GPUs are returned, or all other
    GPUs, whichever have the higher median of mean log rates. False otherwise: then all other GPUs are returned, and the
    comparison can only prove that `gpu` is slow. logs: GPU → log rates of its launches.
    """
    others = [other for other in logs if other != gpu]
    at_work = [other for other in others if other not in cell.waited]
    if len(at_work) < LEAST_GPUS - 1:
        return others, False
    if len(at_work) == len(others):
        return others, True
    return max(others, at_work, key=lambda some: median(fmean(logs[other]) for other in some)), True


def _of_gpus(ratios: Sequence[_Ratios], margins: Mapping[Bound, float]) -> dict[str, _Effects]:
    whole = _effects(ratios, max(margins.values()))
    found = {gpu: _Effects(effect, {}, {}) for gpu, effect in whole.items()}
    for bound in Bound:
        for gpu, effect in _effects([one for one in ratios if one.cell.bound == bound], margins[bound]).items():
            found[gpu].by_bound[bound] = effect
    for one in ratios:
        margin = _margin_alone(margins[one.cell.bound], len(whole), len(ratios))
        for gpu, effect in _effects([one], margin).items():
            found[gpu].alone[one.cell.name] = _Alone(one.cell.bound, effect)
    return found


def _margin_alone(margin: float, gpus: int, cells: int) -> float:
    """Return the wider margin for a cell that is judged alone.

    margin: the margin of the cell's bound, as a share. gpus: number of GPUs that are judged. cells: number of cells
    that are judged; a cell counts once, not once for each GPU.
    """
    tail = NormalDist()
    return margin * tail.inv_cdf(1 - ALPHA / (gpus * cells)) / tail.inv_cdf(1 - ALPHA / gpus)


def _effects(ratios: Sequence[_Ratios], margin: float) -> dict[str, Effect]:
    own = {gpu: [one.by_gpu[gpu] for one in ratios if gpu in one.by_gpu] for one in ratios for gpu in one.by_gpu}
    rounds = {gpu: _rounds(cells) for gpu, cells in own.items()}
    degrees = sum(len(values) - 1 for values in rounds.values())
    if not degrees:
        return {}
    means = {gpu: fmean(values) for gpu, values in rounds.items()}
    squares = math.fsum((value - means[gpu]) ** 2 for gpu, values in rounds.items() for value in values)
    variance = max(squares / degrees, LEAST_VARIANCE)
    floor = math.log1p(-margin)
    effects = {}
    for gpu, mean in means.items():
        error = math.sqrt(variance / len(rounds[gpu]))
        reach = student.quantile(1 - ALPHA, degrees) * error
        effects[gpu] = Effect(
            ratio=math.exp(mean),
            low=math.exp(mean - reach),
            high=math.exp(mean + reach),
            margin=margin,
            p=student.tail((floor - mean) / error, degrees),
            p_faster=student.tail((mean + floor) / error, degrees),
            cells=len(own[gpu]),
            launches=min(map(len, own[gpu])),
        )
    return effects


def _rounds(cells: Sequence[Sequence[float]]) -> list[float]:
    return [
        median(ratios[number] for ratios in cells if len(ratios) > number) for number in range(max(map(len, cells)))
    ]


# ── verdicts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sibling(gpu: str, own: _Effects, p: float, tests: int) -> Sibling:
    """Return the verdict on a GPU. p: its p-value, after Holm over the GPUs.

    own: effects of the GPU over all cells, over the cells of each bound, and in each cell alone. tests: factor for the
    p-values of cells judged alone, applied after Holm over the cells of this GPU. It is the number of GPUs times
    `judgements` of `judge`.
    """
    chances = holm({name: one.effect.p for name, one in own.alone.items()})
    slow = {name: one.effect for name, one in own.alone.items() if chances[name] * tests <= ALPHA}
    undecided = {bound: effect for bound, effect in own.by_bound.items() if not effect.within}
    wanted = {bound: _wanted(one) for bound, one in undecided.items()} if p > ALPHA else {}
    if p <= ALPHA:
        verdict = SiblingVerdict.STRAGGLER
    elif slow and not any(wanted.values()):
        verdict = SiblingVerdict.IN_CELLS
    else:
        verdict = SiblingVerdict.SUSPECT if undecided else SiblingVerdict.OK
    return Sibling(
        gpu=gpu,
        verdict=verdict,
        why=_why(verdict, own.by_bound, slow),
        ratio=own.whole.ratio,
        low=own.whole.low,
        high=own.whole.high,
        p=p,
        effects=own.by_bound,
        slow_cells=slow,
        alone={name: one.effect for name, one in own.alone.items()},
        wanted=max(wanted.values(), default=0),
        in_question=tuple(name for name, one in own.alone.items() if wanted.get(one.bound)),
    )


def _split(found: Mapping[str, Sibling], faster: Collection[str]) -> dict[str, Sibling]:
    """Return the GPUs whose verdict becomes SPLIT: two groups differ in speed, and it is unknown which one is normal.

    Empty unless the faster GPUs are fewer than the slower ones. Of both groups only verdicts OK and SUSPECT change.
    found: verdicts so far. faster: GPUs faster than the others by more than a margin. The slower ones are all others
    that are no STRAGGLER.
    """
    slower = {gpu for gpu, one in found.items() if gpu not in faster and one.verdict is not SiblingVerdict.STRAGGLER}
    if not faster or len(slower) <= len(faster):
        return {}
    ahead = median(_ratio(found[gpu]) for gpu in faster) / median(_ratio(found[gpu]) for gpu in slower) - 1
    why = (
        f"{len(faster)} of the GPUs {'is' if len(faster) == 1 else 'are'} faster than {len(slower)} others by "
        f"{ahead:.1%}: either the faster ones are exceptional, or the others are slow"
    )
    return {
        gpu: replace(
            found[gpu], verdict=SiblingVerdict.SPLIT, why=why, faster=frozenset(faster), wanted=0, in_question=()
        )
        for gpu in (*faster, *slower)
        if found[gpu].verdict in (SiblingVerdict.OK, SiblingVerdict.SUSPECT)
    }


def _ratio(sibling: Sibling) -> float:
    return max((effect.ratio for effect in sibling.effects.values()), key=lambda ratio: abs(math.log(ratio)))


def _wanted(effect: Effect) -> int:
    """Return how many launches to add to each cell so that the GPU may get a verdict: up to MOST_LAUNCHES in all.

    0 if MOST_LAUNCHES would be too few even if the real effect is farther from the margin than the measured one, by
    _MAY_BE_OFF times the half-width of its interval.
    """
    gap = abs(math.log(effect.ratio) - math.log1p(-effect.margin))
    reach = math.log(effect.ratio / effect.low)
    if effect.launches * (reach / (gap + _MAY_BE_OFF * reach)) ** 2 > MOST_LAUNCHES:
        return 0
    needed = math.ceil(effect.launches * (reach / gap) ** 2) if gap * MOST_LAUNCHES > reach else MOST_LAUNCHES
    return max(0, min(max(needed, effect.launches + 1), MOST_LAUNCHES) - effect.launches)


def not_ruled_out(effects: Mapping[Bound, Effect]) -> str:
    """Return "a slow-down of more than 5% is not ruled out" for a SUSPECT GPU.

    effects: bound → effect. The percentage is the margin of the effect with the least p.
    """
    _, worst = _worst(effects)
    return f"a slow-down of more than {worst.margin:.0%} is not ruled out"


def _worst(effects: Mapping[Bound, Effect]) -> tuple[Bound, Effect]:
    return min(effects.items(), key=lambda item: (item[1].p, item[1].low))


def _why(verdict: SiblingVerdict, effects: Mapping[Bound, Effect], slow: Mapping[str, Effect]) -> str:
    bound, worst = _worst(effects)
    rate = f"{worst.ratio:.1%} of its siblings' rate ({worst.low:.1%} to {worst.high:.1%}) in cells limited by {bound}"
    cells = ", ".join(f"{name} at {effect.ratio:.1%}" for name, effect in slow.items())
    match verdict:
        case SiblingVerdict.STRAGGLER:
            least, most = 1 - worst.high, 1 - worst.low
            between = f"90% interval {least:.1%} to {most:.1%} in {bound}-bound cells, allowed: {worst.margin:.0%}"
            return f"{1 - worst.ratio:.1%} slower than its siblings ({between})"
        case SiblingVerdict.IN_CELLS:
            return f"slower than its siblings in {len(slow)} of its cells: {cells}"
        case SiblingVerdict.OK:
            return f"{rate}, which is within {worst.margin:.0%}"
    also = f"; it is slower in {cells}" if slow else ""
    return f"{rate}; {not_ruled_out(effects)}{also}"


def _why_not(gpu: str, cells: Sequence[SiblingCell]) -> str:
    mine = [cell for cell in cells if gpu in cell.rates and len(cell.rates) >= LEAST_GPUS]
    if not mine:
        return "fewer than four identical GPUs: a baseline is needed"
    if all(gpu in cell.waited for cell in mine):
        return "it waited for the host, which decides its rate"
    again = [cell for cell in mine if gpu not in cell.waited and any(len(rates) > 1 for rates in cell.rates.values())]
    waited = "too few of its siblings worked without waiting for the host"
    return waited if again else "only one launch per cell: no verdict"
