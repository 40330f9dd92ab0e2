"""Compare the results of identical devices for one cell: a model in one configuration (docs/method-reference.md)."""

from collections.abc import Iterator, Sequence
from statistics import median, mode
from typing import Final, NamedTuple

from orchestrator.figures import keys
from orchestrator.figures.cells import Measured, ModelResult, ProbeMetrics, Status
from orchestrator.figures.comparisons import Spread, SpreadValue
from orchestrator.figures.keys import CellKey
from orchestrator.figures.parts import UNSTEADY
from orchestrator.figures.table import Figure, main_figure
from orchestrator.stats.percentiles import spread_percent
from protocol.cell import CompileMode, Device, DeviceKind, Mode
from protocol.failure import Category
from protocol.result import SteadyState

COMPARED: Final = "COMPARED"
NOT_COMPARABLE: Final = "NOT COMPARABLE"
THROTTLED: Final = "throttled"
NO_VERDICT_ON_CPU: Final = (
    "CPU devices get no performance verdict, because the machine drifts and its cores share caches"
)
_OUT_OF_MEMORY: Final = frozenset({Status.DEGRADED, Status.REFERRED, Status.DOES_NOT_FIT})


class Group(NamedTuple):
    """Key of a comparison: identical devices (kind, name, bytes of memory) that measure the same cell."""

    kind: DeviceKind
    gpu_name: str
    memory: int | None
    cell: CellKey


class Point(NamedTuple):
    """The result of one device for a cell. metric: all its figures. value: the compared one; None if not measured."""

    device: Device
    metric: Measured
    value: float | None

    @property
    def steady(self) -> bool:
        """Whether times were steady after the warm-up. True if the warm-up had a fixed length, or without a result."""
        return self.metric.steady_state != SteadyState.NONE


class SideBySide(NamedTuple):
    """Results of one cell on identical devices (points). figure: the figure by which the points are compared.

    reasons: for each point, why it is excluded from the comparison; None if it is compared.
    """

    group: Group
    figure: Figure
    points: tuple[Point, ...]
    reasons: tuple[str | None, ...]


def side_by_side(
    devices: Sequence[Device], results: Sequence[ModelResult], probes: Sequence[ProbeMetrics]
) -> tuple[SideBySide, ...]:
    """Return the results of each cell that was planned on two or more identical devices (same name, kind, memory).

    A device without a result has a point without a value. Batch size scans are included only where they found the same
    size on several of the devices.
    """
    by_uuid = {device.uuid: device for device in devices}
    groups: dict[Group, list[tuple[Device, Measured]]] = {}
    for uuid, key, metric in measured(results, probes):
        device = by_uuid[uuid]
        group = Group(device.kind, device.name, device.memory_total_bytes, key)
        groups.setdefault(group, []).append((device, metric))
    return tuple(_side_by_side(group, metrics) for group, metrics in groups.items() if len(metrics) > 1)


def spreads(sides: Sequence[SideBySide]) -> tuple[Spread, ...]:
    """Return each cell's values, with median and spread (in percent of it) of the compared ones.

    sides: from `side_by_side`.
    """
    return tuple(_spread(side) for side in sides)


def measured(results: Sequence[ModelResult], probes: Sequence[ProbeMetrics]) -> Iterator[tuple[str, CellKey, Measured]]:
    """Yield (UUID of the device, key of the cell, figures) of every cell in the results and probes."""
    for result in results:
        for key, metric in keys.of_model(result):
            yield result.gpu_uuid, key, metric
    for probe in probes:
        yield probe.gpu_uuid, keys.of_probe(probe), probe


def _side_by_side(group: Group, metrics: Sequence[tuple[Device, Measured]]) -> SideBySide:
    figure = main_figure(group.cell.phase, group.cell.model_name)
    points = tuple(Point(device, metric, figure.number(metric)) for device, metric in metrics)
    return SideBySide(group, figure, points, tuple(_not_comparable(point, points) for point in points))


def _spread(side: SideBySide) -> Spread:
    group, figure, points, reasons = side
    key = group.cell
    values = [point.value for point, reason in zip(points, reasons, strict=True) if reason is None]
    compared = [value for value in values if value is not None] if len(values) > 1 else []
    middle = median(compared) if compared else None
    return Spread(
        gpu_name=group.gpu_name,
        model_name=key.model_name,
        phase=key.phase,
        precision=key.precision,
        mode=key.mode,
        input_size=key.input_size,
        memory_format=key.memory_format or None,
        new_tokens=key.new_tokens,
        compile_mode=key.compile_mode or CompileMode.EAGER,
        batch_size_requested=key.batch_size,
        metric=figure.field,
        values=tuple(_value(point, reason, middle) for point, reason in zip(points, reasons, strict=True)),
        median=middle,
        spread_percent=spread_percent(compared),
        comparison=COMPARED if compared else NOT_COMPARABLE,
        notes=tuple(_notes(group, points, reasons)),
    )


def _not_comparable(point: Point, points: Sequence[Point]) -> str | None:
    metric = point.metric
    if point.value is None:
        return f"no result: {metric.status}"
    sizes = [other.metric.batch_size for other in points if other.value is not None]
    # On a tie, compare at the requested size.
    usual = metric.batch_size_requested if metric.batch_size_requested in sizes else mode(sizes)
    if metric.batch_size != usual:
        return f"ran at batch size {metric.batch_size}, not {usual}"
    limit = mode(other.device.power_limit_w for other in points)
    if point.device.power_limit_w != limit:
        return f"power limit {_watts(point.device.power_limit_w)}, not {_watts(limit)}"
    if metric.contaminated:
        return str(Category.CONTAMINATED)
    if metric.throttled:
        return THROTTLED
    return None


def _value(point: Point, reason: str | None, middle: float | None) -> SpreadValue:
    shown = reason in (None, THROTTLED)  # how slow heat makes it is of interest
    share = point.value / middle * 100 if middle and shown and point.value is not None else None
    return SpreadValue(
        gpu_uuid=point.device.uuid,
        gpu_id=point.device.gpu_id,
        status=point.metric.status,
        batch_size=point.metric.batch_size,
        value=point.value,
        percent_of_median=share,
        not_comparable=reason,
    )


def _notes(group: Group, points: Sequence[Point], reasons: Sequence[str | None]) -> Iterator[str]:
    if group.kind is DeviceKind.CPU:
        yield NO_VERDICT_ON_CPU
    if group.cell.mode == Mode.LOADED and any(point.device.shared_gpu for point in points):
        yield "slices of one GPU were at work at once, and share its power and clocks"
    for point, reason in zip(points, reasons, strict=True):
        if reason is not None:
            yield f"{NOT_COMPARABLE}: {point.device.label} ({reason})"
    shrunk = [point for point in points if point.metric.status in _OUT_OF_MEMORY]
    if shrunk and any(point.metric.status == Status.OK for point in points):
        devices = ", ".join(point.device.label for point in shrunk)
        yield f"{devices} ran out of memory where its identical siblings did not. Find what else uses memory there"
    unsteady = [point.device.label for point in points if point.value is not None and not point.steady]
    if unsteady:
        yield f"{UNSTEADY}: {', '.join(unsteady)}"
    if max(point.metric.launches for point in points) == 1:
        yield "one launch: no verdict"


def _watts(limit: float | None) -> str:
    return "unknown" if limit is None else f"{limit:g} W"
