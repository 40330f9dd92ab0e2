"""Score a run against a baseline: the geometric mean of the rates' ratios, over the cells of both. Pure.

Cells with a fault, such as throttling, do not count. A score compares machines, so another GPU model or power limit is
allowed; `compare BASELINE REPORT` requires the same. Loading depends on disks and caches, so it does not count either.
"""

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import msgspec

from orchestrator.compare import cell_facts, pairing, pooling, unpaired_cells
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.run_figures import RUNS_APART, VERSION, Side
from orchestrator.config.naming import plural
from orchestrator.errors import ConfigError
from orchestrator.figures.comparisons import BaselineComparison
from orchestrator.figures.keys import CellKey
from protocol.cell import Workload

DEFINITION: Final = (
    "the score is 100 x the geometric mean, over {cells}, of the rate of this run divided by the rate of the baseline "
    "({baseline}, {gpu}); 100 is as fast as the baseline"
)
NOT_THERE: Final = "not in the baseline"
NOT_SCORED: Final = "loading is not part of a score"
NOT_GPU_BOUND: Final = "not limited by the GPU (try a larger batch, -b)"


@dataclass(frozen=True)
class Held:
    """A run compared with a baseline. by_device: (UUID, cell) → rate of the device divided by the baseline's rate.

    excluded: (UUID, cell) → why it is not compared. unwatched: cells whose throttling in the baseline is unknown.
    """

    comparison: BaselineComparison
    by_device: Mapping[tuple[str, CellKey], float]
    unwatched: frozenset[CellKey]
    excluded: Mapping[tuple[str, CellKey], str]


def hold(run: Side, baseline: Side) -> Held:
    """Return the rates of the run divided by those of the baseline, and the score.

    If several devices of the baseline measured a cell, their median rate counts. The score also takes the median over
    the devices of the run.
    """
    stored = pairing.by_key(baseline)
    reference = {
        key: sound
        for key, places in stored.items()
        if (sound := [place for place in places if not cell_facts.fault(place)])
    }
    by_device: dict[tuple[str, CellKey], float] = {}
    by_key: dict[CellKey, float] = {}
    excluded: dict[tuple[str, CellKey], str] = {}
    blind = {key for key, places in reference.items() if _unwatched(places)}
    unknown = unscored = 0
    for key, places in pairing.by_key(run).items():
        ratios: dict[str, float] = {}
        for place in places:
            partners = pooling.partners(reference.get(key, ()), place, any_device=True)
            if reason := _why_not(place, partners, reference, stored.get(key, ())):
                excluded[place.device.gpu_uuid, key] = reason
            else:
                ratios[place.device.gpu_uuid] = _rate([place]) / _rate(partners)
        by_device |= {(uuid, key): ratio for uuid, ratio in ratios.items()}
        if key.phase is Workload.LOAD:
            unscored += len(ratios)
        elif ratios:
            by_key[key] = median(ratios.values())
            unknown += key in blind or _unwatched(place for place in places if place.device.gpu_uuid in ratios)
    note = _note(run, baseline, unknown, len(by_key))
    not_scored = Counter(excluded.values()) + Counter({NOT_SCORED: unscored})
    comparison = _comparison(baseline, by_key, not_scored, note)
    return Held(comparison, by_device, frozenset(blind), excluded)


def joined(sides: Sequence[Side]) -> Side:
    """Return one side with the cells of several runs, and the name of the first.

    Raises ConfigError if host, versions or settings of the runs differ, or if two have the same cell of one device.
    """
    first = sides[0]
    for other in sides[1:]:
        if change := next(cell_facts.differences(first.stack, other.stack), None):
            raise ConfigError(f"{first.name} and {other.name} cannot form one baseline. They differ: {change.text}")
    count = Counter((cell.gpu_uuid, cell.key) for side in sides for cell in side.cells)
    (uuid, key), most = count.most_common(1)[0] if count else (("", None), 0)
    if key is not None and most > 1:
        raise ConfigError(f"{key.label} on {uuid} is in {most} of the runs. Name only one run with this cell")
    return msgspec.structs.replace(
        first,
        run_id=RUNS_APART.join(side.run_id for side in sides),
        devices=tuple({device.gpu_uuid: device for side in sides for device in side.devices}.values()),
        cells=tuple(cell for side in sides for cell in side.cells),
    )


def reduced(side: Side, name: str, *, gpu_bound: bool = False) -> Side:
    """Return a baseline `name` of those cells of a run that have no fault. Raises ConfigError if there are none.

    gpu_bound: only cells that the GPU limits, because their rates hardly depend on the host.
    """
    places = pairing.places(side).values()
    cells = tuple(place.cell for place in places if not _obstacle(place, gpu_bound=gpu_bound))
    if not cells:
        reasons = excluded(side, gpu_bound=gpu_bound).items()
        why = "; ".join(f"{plural(len(found), 'cell')}, {reason}" for reason, found in reasons)
        raise ConfigError(f"{side.name}: no cell of it can be a baseline: {why or 'it has none'}")
    return msgspec.structs.replace(side, baseline_version=VERSION, name=name, cells=cells, ended="")


def excluded(side: Side, *, gpu_bound: bool = False) -> dict[str, list[Place]]:
    """Return why cells cannot be in a baseline ("throttled (advice)") → these cells.

    gpu_bound: also exclude cells that the host limits, or may limit.
    """
    found: dict[str, list[Place]] = {}
    for place in pairing.places(side).values():
        if reason := _obstacle(place, gpu_bound=gpu_bound):
            found.setdefault(reason, []).append(place)
    return found


def _obstacle(place: Place, *, gpu_bound: bool) -> str:
    host = NOT_GPU_BOUND if gpu_bound and place.cell.host_bound is not False else ""
    return cell_facts.advice(place) or host


def _why_not(place: Place, partners: Sequence[Place], reference: Container[CellKey], stored: Sequence[Place]) -> str:
    if fault := cell_facts.fault(place):
        return fault
    if not partners and stored:
        return f"in the baseline: {cell_facts.fault(stored[0])}"
    if not partners:
        names = unpaired_cells.THIS_RUN, unpaired_cells.BASELINE
        return unpaired_cells.other_mode(place.cell.key, reference, *names) or NOT_THERE
    return cell_facts.difference(partners[0], place, any_device=True)


def _unwatched(places: Iterable[Place]) -> bool:
    return any(cell_facts.not_watched(place.device.kind, place.cell.throttled) for place in places)


def _rate(places: Iterable[Place]) -> float:
    return median(median(place.cell.rates) for place in places)


def _comparison(
    baseline: Side, by_key: Mapping[CellKey, float], excluded: Mapping[str, int], note: str
) -> BaselineComparison:
    models: dict[str, list[float]] = {}
    for key, ratio in by_key.items():
        models.setdefault(key.model_name, []).append(ratio)
    improvement = {f"{model}_throughput": _percent(_mean(ratios)) for model, ratios in models.items()}
    whole = _mean(by_key.values()) if by_key else None
    if whole is not None:
        improvement["overall"] = _percent(whole)
    return BaselineComparison(
        baseline=baseline.name,
        baseline_gpu=", ".join(dict.fromkeys(device.gpu_name for device in baseline.devices)),
        baseline_date=baseline.test_date,
        improvement_percent=improvement,
        overall_score=None if whole is None else 100 * whole,
        cells=len(by_key),
        not_comparable=dict(excluded),
        note=note,
    )


def _note(run: Side, baseline: Side, unknown: int, cells: int) -> str:
    """Return remarks on the score, or "". cells: number of scored cells.

    unknown: in how many of them it is unknown whether the run or the baseline was throttled.
    """
    others = {device.gpu_name for device in baseline.devices} - {device.gpu_name for device in run.devices}
    notes = ["the baseline is of another GPU model"] if others else []
    if run.run_ids & baseline.run_ids:
        notes.append("the baseline was made of this run, so the run cannot be slower")
    if unknown:
        notes.append(f"throttling of the run or the baseline is unknown in {unknown} of {plural(cells, 'cell')}")
    return "; ".join(notes)


def _mean(ratios: Iterable[float]) -> float:
    return math.exp(fmean(math.log(ratio) for ratio in ratios))


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100
