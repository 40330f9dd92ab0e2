"""The figures that a threshold can limit, and their values in each cell (model or operator in one configuration)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.compare import cell_facts, pairing, run_figures
from orchestrator.compare.baselines import Held
from orchestrator.compare.cell_facts import Place
from orchestrator.config.workloads import PHASES
from orchestrator.figures import keys
from orchestrator.figures.comparisons import FullNode
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import BY_FIELD, FIGURES, Better, Figure, Limit, LimitName, Metric
from protocol.cell import CompileMode, Workload


class Relative(NamedTuple):
    """Speed of a cell in percent of a reference (above 100: faster). why_not: why the speed is None, else "".

    blind: True if it is unknown whether the reference was throttled.
    """

    speed: float | None
    why_not: str
    blind: bool = False


LIMITED: Final = (*PHASES, Workload.OPERATOR)
"""Workloads whose cells a threshold can limit."""
_NO_SIBLINGS: Final = Relative(None, "no identical device has this cell")
_ONE_MODE: Final = "not measured with one device at work (mode: [loaded, solo], as triage does)"
_ALIKE: Final = "several cells differ only in compile mode, memory format or tokens: limit a run with one of them"
_NO_RELATIVES: Final = {LimitName.OF_SIBLINGS: _NO_SIBLINGS, LimitName.OF_SOLO: Relative(None, _ONE_MODE)}


class Cell(NamedTuple):
    """A cell of the report. fault: such as "throttled". advice: the fault with its remedy. Both are "" without a fault.

    relative: OF_BASELINE, OF_SIBLINGS or OF_SOLO → speed relative to it.
    """

    key: CellKey
    metric: Metric
    gpu: GpuInfo
    fault: str
    advice: str
    relative: Mapping[LimitName, Relative]


class Target(NamedTuple):
    """A figure that thresholds can limit. phases: workloads that have it.

    read: (cell, samples per epoch or None) → the figure in the unit of `limit`; None if it is unknown.
    """

    limit: Limit
    phases: tuple[Workload, ...]
    read: Callable[[Cell, int | None], float | None]


def _target(limit: Limit, figure: Figure) -> Target:
    def read(cell: Cell, _: int | None) -> float | None:
        value = figure.number(cell.metric)
        return None if value is None else value * limit.scale

    return Target(limit, tuple(phase for phase in LIMITED if phase in figure.workloads), read)


def _relative(name: LimitName) -> Target:
    phases = LIMITED if name is LimitName.OF_BASELINE else PHASES
    return Target(Limit(name=name, unit="%"), phases, lambda cell, _: cell.relative[name].speed)


def _epoch_s(cell: Cell, samples_per_epoch: int | None) -> float | None:
    throughput = _THROUGHPUT.number(cell.metric)
    return samples_per_epoch / throughput if samples_per_epoch and throughput else None


_THROUGHPUT: Final = BY_FIELD["throughput_samples_per_sec"]
_TARGETS: Final[Mapping[LimitName, Target]] = {
    **{figure.limit.name: _target(figure.limit, figure) for figure in FIGURES if figure.limit},
    LimitName.EPOCH_TIME: Target(Limit(name=LimitName.EPOCH_TIME, unit="s"), _THROUGHPUT.workloads, _epoch_s),
    **{name: _relative(name) for name in (LimitName.OF_BASELINE, LimitName.OF_SIBLINGS, LimitName.OF_SOLO)},
}
TARGETS: Final = {name: _TARGETS[name] for name in LimitName}
"""Name → figure that thresholds can limit. Here 1 GB is 1024 x 1024 x 1024 bytes, as in the requirements."""


def cells(report: Report, held: Held | None) -> Iterator[Cell]:
    """Yield each cell of a model or study, and each time (TimeName) of an operator. held: None without a baseline."""
    gpus = {gpu.gpu_uuid: gpu for gpu in report.gpu_info}
    places = pairing.places(run_figures.of_report(report, "this run"))
    siblings = dict(_of_siblings(report, places))
    solo: dict[tuple[object, ...], list[FullNode]] = {}
    for loss in report.full_node:
        which = (loss.phase, loss.model_name, loss.precision, loss.input_size, loss.batch_size_requested)
        solo.setdefault((loss.gpu_uuid, *which), []).append(loss)
    for result in report.results:
        for key, metric in keys.of_model(result):
            uuid, place = result.gpu_uuid, places[result.gpu_uuid, key]
            relative = {
                LimitName.OF_BASELINE: _of_baseline(uuid, key, held),
                LimitName.OF_SIBLINGS: siblings.get(_among_siblings(uuid, key), _NO_SIBLINGS),
                LimitName.OF_SOLO: _of_solo(
                    solo.get((uuid, key.phase, key.model_name, key.precision, key.input_size, key.batch_size), [])
                ),
            }
            yield Cell(key, metric, gpus[uuid], cell_facts.fault(place), cell_facts.advice(place), relative)
    for uuid, key, time in keys.of_operators(report):
        place = places[uuid, key]
        relative = _NO_RELATIVES | {LimitName.OF_BASELINE: _of_baseline(uuid, key, held)}
        yield Cell(key, time, gpus[uuid], cell_facts.fault(place), cell_facts.advice(place), relative)


def _of_baseline(gpu_uuid: str, key: CellKey, held: Held | None) -> Relative:
    if held is None:
        return Relative(None, "no baseline")
    ratio = held.by_device.get((gpu_uuid, key))
    why_not = held.excluded.get((gpu_uuid, key), "")
    return Relative(None if ratio is None else ratio * 100, why_not, key in held.unwatched)


def _of_solo(losses: Sequence[FullNode]) -> Relative:
    if len(losses) != 1:
        return Relative(None, _ALIKE if losses else _ONE_MODE)
    (alone,) = losses
    return Relative(None if alone.ratio is None or alone.remark else 100 / alone.ratio, alone.remark)


def _of_siblings(
    report: Report, places: Mapping[tuple[str, CellKey], Place]
) -> Iterator[tuple[tuple[object, ...], Relative]]:
    """Yield (key, speed) of each cell: its speed in percent of the median of identical devices.

    key: UUID of the device, then fields of the cell, in the order of `_among_siblings`. The speed is unknown if any of
    the devices compared in this cell has a fault. places: (UUID, cell) → the cell in `report`, with its device.
    """
    named = {_among_siblings(uuid, key): place for (uuid, key), place in places.items()}
    for spread in report.cross_gpu:
        key = (
            *(spread.phase, spread.model_name, spread.precision, spread.mode),
            *(
                spread.input_size,
                spread.memory_format,
                spread.new_tokens,
                spread.compile_mode,
                spread.batch_size_requested,
            ),
        )
        found = [(value, named[value.gpu_uuid, *key]) for value in spread.values]
        compared = [place for value, place in found if value.not_comparable is None]
        at_fault = _reasons((place, cell_facts.fault(place)) for place in compared)
        excluded = _reasons((place, value.not_comparable or "") for value, place in found)
        for value, place in found:
            if at_fault or not value.percent_of_median:
                yield (value.gpu_uuid, *key), Relative(None, at_fault or excluded)
                continue
            percent = value.percent_of_median
            speed = 10_000 / percent if BY_FIELD[spread.metric].better is Better.LOWER else percent
            blind = any(
                cell_facts.not_watched(one.device.kind, one.cell.throttled) for one in compared if one is not place
            )
            yield (value.gpu_uuid, *key), Relative(speed, "", blind)


def _reasons(whys: Iterable[tuple[Place, str]]) -> str:
    return "; ".join(f"{place.device.label}: {why}" for place, why in whys if why)


def _among_siblings(gpu_uuid: str, key: CellKey) -> tuple[object, ...]:
    return (
        *(gpu_uuid, key.phase, key.model_name, key.precision, key.mode),
        *(key.input_size, key.memory_format or None, key.new_tokens),
        *(key.compile_mode or CompileMode.EAGER, key.batch_size),
    )
