"""The figures that a threshold can limit, and their value in each cell of a model. Probes have no thresholds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from orchestrator.compare import cell_facts, pairing, run_figures
from orchestrator.compare.baselines import Held
from orchestrator.compare.cell_facts import Place
from orchestrator.config.workloads import PHASES
from orchestrator.figures import keys
from orchestrator.figures.cells import Measured
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import BY_FIELD, FIGURES, Better, Figure, Limit, LimitName
from protocol.cell import Workload


class Cell(NamedTuple):
    """A cell of the report. of_*: its speed in percent of theirs; no_*: why it is None.

    fault, advice: of its times, or "". blind_*: that reference has no throttling telemetry.
    """

    key: CellKey
    metric: Measured
    gpu: GpuInfo
    fault: str
    advice: str
    of_baseline: float | None
    blind_baseline: bool
    no_baseline: str
    of_siblings: float | None
    blind_siblings: bool
    no_siblings: str
    of_solo: float | None
    no_solo: str


class _Siblings(NamedTuple):
    """Speed among identical devices in percent of their median; why_not: why it is None."""

    speed: float | None
    why_not: str
    blind: bool


_NO_SIBLINGS: Final = _Siblings(None, "no identical device has this cell", blind=False)

_ONE_MODE: Final = "not measured with one device at work (mode: [loaded, solo], as triage does)"


class Target(NamedTuple):
    """A figure that can be limited. read: its value, given the samples per epoch; None if not measured."""

    limit: Limit
    phases: tuple[Workload, ...]
    read: Callable[[Cell, int | None], float | None]


def _target(limit: Limit, figure: Figure) -> Target:
    def read(cell: Cell, _: int | None) -> float | None:
        value = figure.number(cell.metric)
        return None if value is None else value * limit.scale

    return Target(limit, tuple(phase for phase in PHASES if phase in figure.workloads), read)


def _epoch_s(cell: Cell, samples_per_epoch: int | None) -> float | None:
    throughput = _THROUGHPUT.number(cell.metric)
    return samples_per_epoch / throughput if samples_per_epoch and throughput else None


_THROUGHPUT: Final = BY_FIELD["throughput_samples_per_sec"]
_TARGETS: Final[Mapping[LimitName, Target]] = {
    **{figure.limit.name: _target(figure.limit, figure) for figure in FIGURES if figure.limit},
    LimitName.EPOCH_TIME: Target(Limit(name=LimitName.EPOCH_TIME, unit="s"), _THROUGHPUT.workloads, _epoch_s),
    LimitName.OF_BASELINE: Target(
        Limit(name=LimitName.OF_BASELINE, unit="%"), PHASES, lambda cell, _: cell.of_baseline
    ),
    LimitName.OF_SIBLINGS: Target(
        Limit(name=LimitName.OF_SIBLINGS, unit="%"), PHASES, lambda cell, _: cell.of_siblings
    ),
    LimitName.OF_SOLO: Target(Limit(name=LimitName.OF_SOLO, unit="%"), PHASES, lambda cell, _: cell.of_solo),
}
TARGETS: Final = {name: _TARGETS[name] for name in LimitName}
"""1 GB = 1024 x 1024 x 1024 bytes, as in the requirements."""


def cells(report: Report, held: Held | None) -> Iterator[Cell]:
    """Yield every cell of a model. held: the comparison with a baseline."""
    gpus = {gpu.gpu_uuid: gpu for gpu in report.gpu_info}
    places = pairing.places(run_figures.of_report(report, "this run"))
    siblings = dict(_of_siblings(report, places))
    solo = {
        (one.gpu_uuid, one.phase, one.model_name, one.precision, one.input_size, one.batch_size_requested): one
        for one in report.full_node
    }
    for result in report.results:
        for key, metric in keys.of_model(result):
            ratio = held.by_device.get((result.gpu_uuid, key)) if held else None
            alone = solo.get(
                (result.gpu_uuid, key.phase, key.model_name, key.precision, key.input_size, key.batch_size)
            )
            place = places[result.gpu_uuid, key]
            beside = siblings.get(_among_siblings(result.gpu_uuid, key), _NO_SIBLINGS)
            yield Cell(
                key=key,
                metric=metric,
                gpu=gpus[result.gpu_uuid],
                fault=cell_facts.fault(place),
                advice=cell_facts.advice(place),
                of_baseline=None if ratio is None else ratio * 100,
                blind_baseline=held is not None and key in held.unwatched,
                no_baseline=held.left_out.get((result.gpu_uuid, key), "") if held else "no baseline",
                of_siblings=beside.speed,
                blind_siblings=beside.blind,
                no_siblings=beside.why_not,
                of_solo=None if alone is None or alone.ratio is None or alone.remark else 100 / alone.ratio,
                no_solo=_ONE_MODE if alone is None else alone.remark,
            )


def _of_siblings(
    report: Report, places: Mapping[tuple[str, CellKey], Place]
) -> Iterator[tuple[tuple[object, ...], _Siblings]]:
    """Yield (UUID, cell) and its place among identical devices. A median that includes a fault is not used."""
    named = {_among_siblings(uuid, key): place for (uuid, key), place in places.items()}
    for spread in report.cross_gpu:
        key = (
            *(spread.phase, spread.model_name, spread.precision, spread.mode),
            *(spread.input_size, spread.memory_format, spread.new_tokens, spread.batch_size_requested),
        )
        found = [(value, named[value.gpu_uuid, *key]) for value in spread.values]
        compared = [place for value, place in found if value.not_comparable is None]
        at_fault = _told((place, cell_facts.fault(place)) for place in compared)
        left_out = _told((place, value.not_comparable or "") for value, place in found)
        for value, place in found:
            if at_fault or not value.percent_of_median:
                yield (value.gpu_uuid, *key), _Siblings(None, at_fault or left_out, blind=False)
                continue
            percent = value.percent_of_median
            speed = 10_000 / percent if BY_FIELD[spread.metric].better is Better.LOWER else percent
            blind = any(
                cell_facts.not_watched(one.device.kind, one.cell.throttled) for one in compared if one is not place
            )
            yield (value.gpu_uuid, *key), _Siblings(speed, "", blind)


def _told(whys: Iterable[tuple[Place, str]]) -> str:
    return "; ".join(f"{place.device.label}: {why}" for place, why in whys if why)


def _among_siblings(gpu_uuid: str, key: CellKey) -> tuple[object, ...]:
    return (
        *(gpu_uuid, key.phase, key.model_name, key.precision, key.mode),
        *(key.input_size, key.memory_format or None, key.new_tokens, key.batch_size),
    )
