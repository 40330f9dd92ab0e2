"""GPUs that are slower than their identical siblings by more than healthy ones differ. Pure.

    rates of launches, by cell and GPU ── log of the rate against the median of the OTHER GPUs, cell by cell
      ├─ over all cells of one bound, weighted by how well each is known ──▶ a p for each GPU ── Holm ──▶ verdict
      └─ each cell alone ── Holm over the GPU's cells, for as many GPUs as there are ──▶ where

Margins (configs/margins.yaml) differ by what limits a cell, so a GPU has one effect for each bound, and its p is the
smallest of them times their number. The variance is that between launches of one cell on one GPU, pooled over its GPUs
and, for an effect, over its cells. A cell weighs by its repeatability, at most as much as one of middling noise. The
median of the others adds at most the variance of one GPU's mean (odd number), or half of it (Gaussian Poincare).
"""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Final, NamedTuple, TypeVar

from orchestrator.stats import student
from orchestrator.stats.pooled import LEAST_VARIANCE

MOST_LAUNCHES: Final = 7
LEAST_GPUS: Final = 4
"""With three, the median of the others lies between two, and the slow one is inconclusive."""
ALPHA: Final = 0.05
_Key = TypeVar("_Key")


class Bound(enum.StrEnum):
    """Limit of a cell: power, clock or bandwidth."""

    POWER = "power"
    CLOCK = "clock"
    BANDWIDTH = "bandwidth"


class SiblingVerdict(enum.StrEnum):
    """OK: the deficit is shown to be within the margin. STRAGGLER: beyond. SUSPECT: neither, or one cell alone is."""

    OK = "OK"
    SUSPECT = "SUSPECT"
    STRAGGLER = "STRAGGLER"
    NONE = "no verdict"


@dataclass(frozen=True, kw_only=True)
class SiblingCell:
    """A cell on identical GPUs. rates: GPU → a rate for each launch, more is faster (of a time, its inverse).

    waited: GPUs that waited for the host and could be faster: they only prove slowness of others.
    """

    name: str
    bound: Bound
    rates: Mapping[str, Sequence[float]]
    waited: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A GPU's rate over that of the others' median (0.94 is 6 % slower), with its 90 % interval.

    margin: the share by which it may be slower. p: of such a deficit beyond it by chance.
    """

    ratio: float
    low: float
    high: float
    margin: float
    p: float
    cells: int
    launches: int

    @property
    def within(self) -> bool:
        """Whether the deficit is shown to be within the margin."""
        return self.low > 1 - self.margin


@dataclass(frozen=True, kw_only=True)
class Sibling:
    """Verdict of one GPU. p: after Holm over the GPUs. alone: effects by cell. slow_cells: beyond their margin.

    ratio, low, high: over all its cells, with the 90 % interval. wanted: launches of each cell that should settle it.
    in_question: cells whose launches would help to settle a SUSPECT.
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


class _Part(NamedTuple):
    """A GPU in a cell: log of its ratio, its variance, and the degrees of freedom."""

    cell: SiblingCell
    log_ratio: float
    variance: float
    degrees: int
    launches: int
    margin: float


def judge(cells: Sequence[SiblingCell], margins: Mapping[Bound, float], asked: int = 1) -> tuple[Sibling, ...]:
    """A verdict for each GPU in any cell, by name. Raises ValueError for a rate that is not above zero.

    margins: shares (0.05). Cells of fewer than four GPUs, or without a repetition, are excluded. asked: number of such
    judgements of these GPUs, by which each p is multiplied.
    """
    gpus = sorted({gpu for cell in cells for gpu in cell.rates})
    parts = _parts(cells, margins)
    effects = {gpu: _by_bound(parts[gpu]) for gpu in gpus if gpu in parts}
    chances = {gpu: asked * len(own) * min(effect.p for effect in own.values()) for gpu, own in effects.items()}
    adjusted = holm(chances)
    return tuple(
        _sibling(gpu, parts[gpu], effects[gpu], adjusted[gpu], asked * len(parts))
        if gpu in parts
        else Sibling(gpu=gpu, verdict=SiblingVerdict.NONE, why=_why_not(gpu, cells), effects={}, slow_cells={})
        for gpu in gpus
    )


def holm(chances: Mapping[_Key, float]) -> dict[_Key, float]:
    """Holm's p of each: the error over all that must be allowed for it to stand out."""
    adjusted, least = {}, 0.0
    for done, (name, p) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        least = adjusted[name] = max(least, min(1.0, p * (len(chances) - done)))
    return adjusted


def _parts(cells: Sequence[SiblingCell], margins: Mapping[Bound, float]) -> dict[str, list[_Part]]:
    logs = [
        {gpu: [_log(cell, gpu, rate) for rate in rates] for gpu, rates in cell.rates.items() if rates} for cell in cells
    ]
    degrees = [sum(len(values) - 1 for values in launches.values()) for launches in logs]
    usable = [index for index in range(len(cells)) if len(logs[index]) >= LEAST_GPUS and degrees[index]]
    own = {index: _variance(logs[index].values(), degrees[index]) for index in usable}
    middling = max(median(own.values()), LEAST_VARIANCE) if own else LEAST_VARIANCE
    parts: dict[str, list[_Part]] = {}
    for index in usable:
        cell, launches = cells[index], logs[index]
        means = {gpu: fmean(values) for gpu, values in launches.items()}
        variance = max(own[index], middling)
        for gpu, values in launches.items():
            if gpu in cell.waited:
                continue
            others, enough = _beside(gpu, cell, means)
            reference = (1.0 if len(others) % 2 else 0.5) / min(len(launches[other]) for other in others)
            part = _Part(
                cell=cell,
                log_ratio=means[gpu] - median(means[other] for other in others),
                variance=variance * (1 / len(values) + reference),
                degrees=degrees[index],
                launches=len(values),
                margin=margins[cell.bound],
            )
            if enough or part.log_ratio < math.log1p(-part.margin):
                parts.setdefault(gpu, []).append(part)
    return parts


def _beside(gpu: str, cell: SiblingCell, means: Mapping[str, float]) -> tuple[Sequence[str], bool]:
    """Reference of a GPU in a cell, and whether it can prove that the GPU is fast enough.

    GPUs that waited may raise the reference, never lower it.
    """
    others = [other for other in means if other != gpu]
    at_work = [other for other in others if other not in cell.waited]
    if len(at_work) < LEAST_GPUS - 1:
        return others, False
    return max(others, at_work, key=lambda some: median(means[other] for other in some)), True


def _log(cell: SiblingCell, gpu: str, rate: float) -> float:
    if not rate > 0 or math.isinf(rate):
        raise ValueError(f"a rate must be above zero and finite: {cell.name} on {gpu} has {rate}")
    return math.log(rate)


def _variance(launches: Iterable[Sequence[float]], degrees: int) -> float:
    means = [(values, fmean(values)) for values in launches]
    return math.fsum((value - mean) ** 2 for values, mean in means for value in values) / degrees


def _by_bound(parts: Sequence[_Part]) -> dict[Bound, Effect]:
    return {bound: _effect(own) for bound in Bound if (own := [part for part in parts if part.cell.bound == bound])}


def _effect(parts: Sequence[_Part]) -> Effect:
    """Effect over these cells, each weighted by the inverse of its variance; degrees after Satterthwaite."""
    total = math.fsum(1 / part.variance for part in parts)
    shares = [1 / part.variance / total for part in parts]
    log_ratio = math.fsum(share * part.log_ratio for share, part in zip(shares, parts, strict=True))
    # A share squared times its variance is the share over the total: the degrees follow from the shares alone.
    degrees = 1 / math.fsum(share**2 / part.degrees for share, part in zip(shares, parts, strict=True))
    error = 1 / math.sqrt(total)
    reach = student.quantile(1 - ALPHA, degrees) * error
    margin = math.fsum(share * part.margin for share, part in zip(shares, parts, strict=True))
    return Effect(
        ratio=math.exp(log_ratio),
        low=math.exp(log_ratio - reach),
        high=math.exp(log_ratio + reach),
        margin=margin,
        p=student.tail((math.log1p(-margin) - log_ratio) / error, degrees),
        cells=len(parts),
        launches=min(part.launches for part in parts),
    )


def _sibling(gpu: str, parts: Sequence[_Part], effects: Mapping[Bound, Effect], p: float, tests: int) -> Sibling:
    alone = {part.cell.name: _effect([part]) for part in parts}
    chances = holm({name: effect.p for name, effect in alone.items()})
    slow = {name: effect for name, effect in alone.items() if chances[name] * tests <= ALPHA}
    undecided = [effect for effect in effects.values() if not effect.within]
    if p <= ALPHA:
        verdict = SiblingVerdict.STRAGGLER
    elif undecided or slow:
        verdict = SiblingVerdict.SUSPECT
    else:
        verdict = SiblingVerdict.OK
    whole = _effect(parts)
    return Sibling(
        gpu=gpu,
        verdict=verdict,
        why=_why(verdict, effects, slow),
        ratio=whole.ratio,
        low=whole.low,
        high=whole.high,
        p=p,
        effects=effects,
        slow_cells=slow,
        alone=alone,
        wanted=max(map(_wanted, undecided), default=0) if verdict is SiblingVerdict.SUSPECT else 0,
        in_question=_in_question(parts, effects, slow) if verdict is SiblingVerdict.SUSPECT else (),
    )


def _in_question(
    parts: Sequence[_Part], effects: Mapping[Bound, Effect], slow: Mapping[str, Effect]
) -> tuple[str, ...]:
    """All cells of a bound whose effect is not within its margin; where every one is, those that are slow alone."""
    unsettled = {bound for bound, effect in effects.items() if not effect.within}
    if not unsettled:
        return tuple(slow)
    return tuple(part.cell.name for part in parts if part.cell.bound in unsettled)


def _wanted(effect: Effect) -> int:
    """Further launches until the interval should leave the margin on one side; 0 when no more may be added."""
    gap = abs(math.log(effect.ratio) - math.log1p(-effect.margin))
    reach = math.log(effect.ratio / effect.low)
    needed = math.ceil(effect.launches * (reach / gap) ** 2) if gap * MOST_LAUNCHES > reach else MOST_LAUNCHES
    return max(0, min(max(needed, effect.launches + 1), MOST_LAUNCHES) - effect.launches)


def _why(verdict: SiblingVerdict, effects: Mapping[Bound, Effect], slow: Mapping[str, Effect]) -> str:
    bound, worst = min(effects.items(), key=lambda item: (item[1].p, item[1].low))
    rate = f"{worst.ratio:.1%} of its siblings' rate ({worst.low:.1%} to {worst.high:.1%}) where {bound} is the limit"
    if verdict is SiblingVerdict.STRAGGLER:
        return f"{rate}: slower by more than {worst.margin:.0%}"
    if verdict is SiblingVerdict.OK:
        return f"{rate}: within {worst.margin:.0%}"
    if all(effect.within for effect in effects.values()):
        return f"as fast as its siblings over all, but not in {', '.join(slow)}"
    return f"{rate}: whether it is slower by more than {worst.margin:.0%} is not settled"


def _why_not(gpu: str, cells: Sequence[SiblingCell]) -> str:
    mine = [cell for cell in cells if gpu in cell.rates and len(cell.rates) >= LEAST_GPUS]
    if not mine:
        return "three GPUs or fewer: only against a baseline"
    if all(gpu in cell.waited for cell in mine):
        return "it waited for the host, whose doing its rate is"
    again = [cell for cell in mine if gpu not in cell.waited and any(len(rates) > 1 for rates in cell.rates.values())]
    return "too few of its siblings had work that did not wait for the host" if again else "one launch: no verdict"
