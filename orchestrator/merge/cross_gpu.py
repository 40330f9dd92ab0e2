"""The same cell on identical devices, side by side.

What differs in an identity fact (batch size that really ran, power limit, throttling) is named and left out, never
mixed in: docs/method.md, "Words" and "Two runs". Spread is shown; who is a straggler is not judged here.
"""

from collections.abc import Iterator, Sequence
from statistics import median, mode
from typing import Final, NamedTuple

from orchestrator.outcomes import Status
from orchestrator.report.cells import LoadMetrics, ModelResult, PhaseMetrics
from orchestrator.report.model import Spread, SpreadValue
from orchestrator.stats.series import spread_percent
from protocol.cell import Device, DeviceKind
from protocol.result import SteadyState

COMPARED: Final = "COMPARED"
NOT_COMPARABLE: Final = "NOT COMPARABLE"
_OUT_OF_MEMORY: Final = frozenset({Status.DEGRADED, Status.REFERRED, Status.DOES_NOT_FIT})


class _Key(NamedTuple):
    """What makes two cells of identical devices the same measurement."""

    kind: DeviceKind
    gpu_name: str
    memory: int | None
    model: str
    precision: str
    mode: str
    compile_mode: str
    input_size: int | None
    phase: str
    batch_size: int


class _Point(NamedTuple):
    device: Device
    metric: LoadMetrics | PhaseMetrics

    @property
    def value(self) -> float | None:
        """Samples a second, or milliseconds of loading."""
        if isinstance(self.metric, LoadMetrics):
            return self.metric.model_load_time_ms
        return self.metric.throughput_samples_per_sec

    @property
    def steady(self) -> bool:
        """Whether warm-up ended because times were steady, or was fixed by the user."""
        return isinstance(self.metric, LoadMetrics) or self.metric.steady_state != SteadyState.NONE


def spreads(devices: Sequence[Device], results: Sequence[ModelResult]) -> tuple[Spread, ...]:
    """A comparison for each cell that two or more identical devices (name, kind, memory) were to run."""
    known = {device.uuid: device for device in devices}
    groups: dict[_Key, list[_Point]] = {}
    for result in results:
        for key, point in _points(result, known[result.gpu_uuid]):
            groups.setdefault(key, []).append(point)
    return tuple(_spread(key, points) for key, points in groups.items() if len(points) > 1)


def _points(result: ModelResult, device: Device) -> Iterator[tuple[_Key, _Point]]:
    phases: dict[str, list[LoadMetrics | PhaseMetrics]] = {
        "load": [result.load_metrics] if result.load_metrics else [],
        "inference": list(result.inference_metrics.values()),
        "training": list(result.training_metrics.values()),
    }
    for phase, metrics in phases.items():
        for metric in metrics:
            key = _Key(
                kind=device.kind,
                gpu_name=device.name,
                memory=device.memory_total_bytes,
                model=result.model_name,
                precision=result.precision,
                mode=result.mode,
                compile_mode=result.compile_mode,
                input_size=result.input_size,
                phase=phase,
                batch_size=metric.batch_size_requested,
            )
            yield key, _Point(device, metric)


def _spread(key: _Key, points: Sequence[_Point]) -> Spread:
    reasons = [_not_comparable(point, points) for point in points]
    values = [point.value for point, reason in zip(points, reasons, strict=True) if reason is None]
    compared = [value for value in values if value is not None] if len(values) > 1 else []
    middle = median(compared) if compared else None
    return Spread(
        gpu_name=key.gpu_name,
        model_name=key.model,
        phase=key.phase,
        precision=key.precision,
        mode=key.mode,
        input_size=key.input_size,
        batch_size_requested=key.batch_size,
        metric="model_load_time_ms" if key.phase == "load" else "throughput_samples_per_sec",
        values=tuple(_value(point, reason, middle) for point, reason in zip(points, reasons, strict=True)),
        median=middle,
        spread_percent=spread_percent(compared),
        comparison=COMPARED if compared else NOT_COMPARABLE,
        notes=tuple(_notes(key, points, reasons)),
    )


def _not_comparable(point: _Point, points: Sequence[_Point]) -> str | None:
    """The identity fact in which a device differs from most of its siblings, None where there is none."""
    metric = point.metric
    if point.value is None:
        return f"no result: {metric.status}"
    sizes = [other.metric.batch_size for other in points if other.value is not None]
    # On a tie the size that was asked for is the one to compare at.
    usual = metric.batch_size_requested if metric.batch_size_requested in sizes else mode(sizes)
    if metric.batch_size != usual:
        return f"ran at batch size {metric.batch_size}, not {usual}"
    limit = mode(other.device.power_limit_w for other in points)
    if point.device.power_limit_w != limit:
        return f"power limit {_watts(point.device.power_limit_w)}, not {_watts(limit)}"
    if point.device.busy_with is not None:
        return "contaminated by another process"
    if isinstance(metric, PhaseMetrics) and metric.throttled:
        return "throttled for temperature"
    return None


def _value(point: _Point, reason: str | None, middle: float | None) -> SpreadValue:
    share = point.value / middle * 100 if middle and point.value is not None and reason is None else None
    return SpreadValue(
        gpu_uuid=point.device.uuid,
        gpu_id=point.device.gpu_id,
        status=point.metric.status,
        batch_size=point.metric.batch_size,
        value=point.value,
        percent_of_median=share,
        not_comparable=reason,
    )


def _notes(key: _Key, points: Sequence[_Point], reasons: Sequence[str | None]) -> Iterator[str]:
    if key.kind is DeviceKind.CPU:
        yield "CPU devices get no performance verdict: the machine drifts, and slices of its cores share caches"
    for point, reason in zip(points, reasons, strict=True):
        if reason is not None:
            yield f"{NOT_COMPARABLE}: {point.device.label} ({reason})"
    shrunk = [point for point in points if point.metric.status in _OUT_OF_MEMORY]
    if shrunk and any(point.metric.status == Status.OK for point in points):
        who = ", ".join(point.device.label for point in shrunk)
        yield f"{who} ran out of memory where its identical siblings did not: look at what else holds memory there"
    unsteady = [point.device.label for point in points if point.value is not None and not point.steady]
    if unsteady:
        yield f"not steady after warm-up: {', '.join(unsteady)}"
    if max(point.metric.launches for point in points) == 1:
        yield "one launch: no verdict"


def _watts(limit: float | None) -> str:
    return "unknown" if limit is None else f"{limit:g} W"
