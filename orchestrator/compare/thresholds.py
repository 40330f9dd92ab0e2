"""Limits that a run must keep to: a file that people write, and each limit held against each cell that it means.

    thresholds.yaml ── read ──▶ Threshold ── judge(report) ──▶ target, actual, met | missed | not measured

A limit that no cell of the run can be held against is not met: it is `not measured`, and the run does not pass.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from orchestrator.configuration import yaml_file
from orchestrator.configuration.naming import counted
from orchestrator.configuration.yaml_schema import listed
from orchestrator.disk.outcomes import Status
from orchestrator.errors import ConfigError
from orchestrator.report import keys
from orchestrator.report.cells import Measured
from orchestrator.report.comparisons import Met, ThresholdResult
from orchestrator.report.keys import CellKey
from orchestrator.report.model import GpuInfo, Report
from orchestrator.report.parts import Part
from protocol.cell import Mode, Precision, Workload
from protocol.exit_codes import ExitCode

Count = Annotated[int, msgspec.Meta(ge=1)]


class Bound(enum.StrEnum):
    """How a figure is held against its limit."""

    BELOW = "below"
    AT_MOST = "at_most"
    ABOVE = "above"
    AT_LEAST = "at_least"


_HOLDS: Final[Mapping[Bound, tuple[str, Callable[[float, float], bool]]]] = {
    Bound.BELOW: ("<", lambda actual, limit: actual < limit),
    Bound.AT_MOST: ("<=", lambda actual, limit: actual <= limit),
    Bound.ABOVE: (">", lambda actual, limit: actual > limit),
    Bound.AT_LEAST: (">=", lambda actual, limit: actual >= limit),
}


class Figure(enum.StrEnum):
    """What a limit can be set for; FIGURES says how each is read."""

    LATENCY = "latency_ms"
    FORWARD_TIME = "forward_time_ms"
    ITERATION_TIME = "iteration_time_ms"
    ITERATION_TIME_P99 = "iteration_time_p99_ms"
    LOAD_TIME = "model_load_time_ms"
    FIRST_TOKEN = "time_to_first_token_ms"  # noqa: S105  # a time, no secret
    THROUGHPUT = "throughput_per_sec"
    TOKENS = "tokens_per_second"
    EPOCH_TIME = "epoch_time_s"
    MEMORY = "peak_memory_gb"
    UTILIZATION = "gpu_utilization_percent"
    POWER = "power_draw_w"
    TEMPERATURE = "temperature_max_c"
    ENERGY = "energy_per_sample_j"
    OF_BASELINE = "speed_of_baseline_percent"
    OF_SIBLINGS = "speed_of_siblings_percent"
    OF_SOLO = "speed_of_solo_percent"


class Threshold(Part, frozen=True, kw_only=True):
    """A limit. Left out, models, batch_sizes, precisions mean all. samples_per_epoch: for epoch_time_s alone."""

    name: str
    figure: Figure
    phase: Workload
    below: float | None = None
    at_most: float | None = None
    above: float | None = None
    at_least: float | None = None
    models: tuple[str, ...] = ()
    batch_sizes: tuple[Count, ...] = ()
    precisions: tuple[Precision, ...] = ()
    samples_per_epoch: Count | None = None

    @property
    def limit(self) -> tuple[Bound, float]:
        """The one bound that is given."""
        return next((bound, value) for bound in Bound if (value := getattr(self, bound)) is not None)

    def means(self, key: CellKey) -> bool:
        """Whether it is about this cell."""
        return (
            key.phase == self.phase
            and (not self.models or key.model_name in self.models)
            and (not self.batch_sizes or key.batch_size in self.batch_sizes)
            and (not self.precisions or key.precision in self.precisions)
            and (self.figure is not Figure.OF_SOLO or key.mode == Mode.LOADED)
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    thresholds: tuple[Threshold, ...]


class _Cell(NamedTuple):
    """A cell of the report. of_baseline, of_siblings: its speed, in percent of theirs; of_solo: of its own alone."""

    key: CellKey
    metric: Measured
    gpu: GpuInfo
    of_baseline: float | None
    of_siblings: float | None
    of_solo: float | None


class _Read(NamedTuple):
    """unit: of the figure. read: it, None where it was not measured."""

    unit: str
    read: Callable[[_Cell, Threshold], float | None]


def _field(name: str, scale: float = 1.0) -> Callable[[_Cell, Threshold], float | None]:
    def read(cell: _Cell, _: Threshold) -> float | None:
        value: float | None = getattr(cell.metric, name, None)
        return None if value is None else value * scale

    return read


def _epoch_s(cell: _Cell, threshold: Threshold) -> float | None:
    throughput: float | None = getattr(cell.metric, "throughput_samples_per_sec", None)
    return threshold.samples_per_epoch / throughput if threshold.samples_per_epoch and throughput else None


def _p99_ms(cell: _Cell, _: Threshold) -> float | None:
    return None if cell.metric.statistics is None else cell.metric.statistics.iteration_time_p99_ms


FIGURES: Final[Mapping[Figure, _Read]] = {
    Figure.LATENCY: _Read("ms", _field("inference_latency_ms")),
    Figure.FORWARD_TIME: _Read("ms", _field("forward_time_ms")),
    Figure.ITERATION_TIME: _Read("ms", _field("total_iteration_time_ms")),
    Figure.ITERATION_TIME_P99: _Read("ms", _p99_ms),
    Figure.LOAD_TIME: _Read("ms", _field("model_load_time_ms")),
    Figure.FIRST_TOKEN: _Read("ms", _field("time_to_first_token_ms")),
    Figure.THROUGHPUT: _Read("samples/s", _field("throughput_samples_per_sec")),
    Figure.TOKENS: _Read("tokens/s", _field("tokens_per_second")),
    Figure.EPOCH_TIME: _Read("s", _epoch_s),
    Figure.MEMORY: _Read("GB", _field("peak_memory_mb", 1 / 1024)),
    Figure.UTILIZATION: _Read("%", _field("gpu_utilization_percent")),
    Figure.POWER: _Read("W", _field("power_draw_w")),
    Figure.TEMPERATURE: _Read("C", _field("temperature_max_c")),
    Figure.ENERGY: _Read("J", _field("energy_per_sample_j")),
    Figure.OF_BASELINE: _Read("%", lambda cell, _: cell.of_baseline),
    Figure.OF_SIBLINGS: _Read("%", lambda cell, _: cell.of_siblings),
    Figure.OF_SOLO: _Read("%", lambda cell, _: cell.of_solo),
}
"""1 GB = 1024 x 1024 x 1024 bytes, as the requirements count it."""


_PHASES: Final = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


def load(path: Path) -> tuple[Threshold, ...]:
    """The limits of a file, at least one. Raises ConfigError that names the line and the key."""
    document = yaml_file.read(path)
    found = document.convert(_File).thresholds
    if not found:
        raise ConfigError(f"{path}: there is no threshold in it")
    for index, one in enumerate(found):
        problem = mistake(one)
        if not problem and one.name in {other.name for other in found[:index]}:
            problem = f"{one.name} is given twice"
        if problem:
            raise ConfigError(f"{document.where(('thresholds', index))}: {problem}")
    return found


def mistake(threshold: Threshold) -> str:
    """What is wrong with a limit whose types are right; empty where nothing is."""
    given = [bound for bound in Bound if getattr(threshold, bound) is not None]
    if len(given) != 1:
        return f"expected one of {listed(Bound)}, got {listed(given, 'and') if given else 'none'}"
    if threshold.phase not in _PHASES:
        return f"phase: expected {listed(_PHASES)}, got {threshold.phase}"
    if (threshold.figure is Figure.EPOCH_TIME) != (threshold.samples_per_epoch is not None):
        return "samples_per_epoch belongs to epoch_time_s, and only to it"
    return ""


def judge(
    report: Report, thresholds: Sequence[Threshold], ratios: Mapping[tuple[str, CellKey], float]
) -> Iterator[ThresholdResult]:
    """Each limit with each cell that it means. ratios: (UUID, cell) → its speed over the baseline's."""
    cells = list(_cells(report, ratios)) if thresholds else []
    for threshold in thresholds:
        meant = [cell for cell in cells if threshold.means(cell.key)]
        if not meant:
            yield _result(threshold, None, None, "no cell of the run is meant by it")
        for cell in meant:
            note = _why_not(cell)
            yield _result(threshold, cell, None if note else FIGURES[threshold.figure].read(cell, threshold), note)


def exit_code(results: Sequence[ThresholdResult]) -> ExitCode:
    """1 where a limit is missed, 4 where one could not be held against any figure, else 0."""
    seen = {one.status for one in results}
    if Met.MISSED in seen:
        return ExitCode.MISSED
    return ExitCode.INCOMPLETE if Met.NOT_MEASURED in seen else ExitCode.PASSED


def missed(results: Sequence[ThresholdResult]) -> Iterator[str]:
    """What keeps a run from passing, in words."""
    for status, words in ((Met.MISSED, "missed"), (Met.NOT_MEASURED, "could not be held against any figure")):
        names = [one.threshold for one in results if one.status is status]
        if names:
            different = list(dict.fromkeys(names))
            more = f" and {len(different) - 3} more" if len(different) > 3 else ""
            yield f"{counted(len(names), 'threshold')} {words}: {', '.join(different[:3])}{more}"


def _cells(report: Report, ratios: Mapping[tuple[str, CellKey], float]) -> Iterator[_Cell]:
    gpus = {gpu.gpu_uuid: gpu for gpu in report.gpu_info}
    siblings = dict(_of_siblings(report))
    solo = {
        (one.gpu_uuid, one.phase, one.model_name, one.precision, one.input_size, one.batch_size_requested): one.ratio
        for one in report.full_node
    }
    for result in report.results:
        for key, metric in keys.of_model(result):
            ratio = ratios.get((result.gpu_uuid, key))
            alone = solo.get(
                (result.gpu_uuid, key.phase, key.model_name, key.precision, key.input_size, key.batch_size)
            )
            yield _Cell(
                key=key,
                metric=metric,
                gpu=gpus[result.gpu_uuid],
                of_baseline=None if ratio is None else ratio * 100,
                of_siblings=siblings.get(_among_siblings(result.gpu_uuid, key)),
                of_solo=None if alone is None else 100 / alone,
            )


def _of_siblings(report: Report) -> Iterator[tuple[tuple[object, ...], float]]:
    """UUID and cell → its speed, in percent of the median of identical devices."""
    for spread in report.cross_gpu:
        key = (
            *(spread.phase, spread.model_name, spread.precision, spread.mode),
            *(spread.input_size, spread.memory_format, spread.new_tokens, spread.batch_size_requested),
        )
        for value in spread.values:
            if value.percent_of_median:
                percent = value.percent_of_median
                yield (value.gpu_uuid, *key), 10_000 / percent if spread.metric.endswith("_ms") else percent


def _among_siblings(gpu_uuid: str, key: CellKey) -> tuple[object, ...]:
    """As _of_siblings names a cell."""
    return (
        *(gpu_uuid, key.phase, key.model_name, key.precision, key.mode),
        *(key.input_size, key.memory_format or None, key.new_tokens, key.batch_size),
    )


def _why_not(cell: _Cell) -> str:
    """Why its figures are not those that the limit means; empty where they are."""
    metric = cell.metric
    if metric.status == Status.OK:
        return ""
    return f"ran at batch size {metric.batch_size}" if metric.degraded else f"no result: {metric.status}"


def _result(threshold: Threshold, cell: _Cell | None, actual: float | None, note: str) -> ThresholdResult:
    bound, limit = threshold.limit
    sign, holds = _HOLDS[bound]
    unit = FIGURES[threshold.figure].unit
    status = Met.NOT_MEASURED if actual is None else Met.MET if holds(actual, limit) else Met.MISSED
    return ThresholdResult(
        threshold=threshold.name,
        figure=threshold.figure,
        target=f"{sign} {limit:g} {unit}",
        actual=actual,
        unit=unit,
        status=status,
        note=note or (_doubt(threshold, cell, actual) if cell else ""),
        cell=cell.metric.cell if cell else None,
        gpu_id=cell.gpu.gpu_id if cell else None,
        gpu_uuid=cell.gpu.gpu_uuid if cell else None,
        model_name=cell.key.model_name if cell else None,
        phase=cell.key.phase if cell else None,
        precision=cell.key.precision if cell else None,
        batch_size=cell.key.batch_size if cell else None,
    )


def _doubt(threshold: Threshold, cell: _Cell, actual: float | None) -> str:
    """What to know about the figure, or why there is none."""
    if actual is None:
        if threshold.figure is Figure.OF_BASELINE:
            return "no baseline, or none with this cell"
        if threshold.figure is Figure.OF_SIBLINGS:
            return "no identical device has this cell"
        if threshold.figure is Figure.OF_SOLO:
            return "not measured with one device at work (mode: [loaded, solo], as triage does)"
        return cell.metric.telemetry_note or "not among the figures of this cell"
    words = {"throttled": cell.metric.throttled, "contaminated": cell.metric.contaminated}
    return ", ".join(word for word, is_so in words.items() if is_so)
