"""Compute the figures of one cell (a model in one configuration on one device) from its launches (processes)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any, Final, cast

from msgspec.structs import asdict

from orchestrator.analysis.compilation import of_launches as compilation
from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.analysis.plausibility import Seen
from orchestrator.figures.cells import (
    RESIDENT,
    CellReport,
    GenerationMetrics,
    LoadMetrics,
    Measured,
    PhaseMetrics,
    ProbeMetrics,
)
from orchestrator.figures.parts import Plausibility, Statistics
from orchestrator.figures.sources import MIB, OfResults, Percentile, Source, greater, percent
from orchestrator.figures.table import FIGURES
from orchestrator.gpu.telemetry import clock_events, validity
from orchestrator.stats.launch import CellFigures, launch_interval
from protocol.cell import Cell, Device, DeviceKind, ModelSpec, SizeUnit, Workload
from protocol.result import Memory, SeriesName, SteadyState

_SUMMARY: Final = ("mean_ms", "std_ms", "min_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "p99_9_ms")


@dataclass(frozen=True)
class ValidLaunches:
    """A planned cell with the launches that count for its figures. figures: None if no launch counts."""

    cell: Cell
    device: Device
    figures: CellFigures | None
    launches: Sequence[LaunchEvidence]

    def mean_ms(self, series: SeriesName) -> float | None:
        """Return the median over the launches of the mean time of a series, in ms; None if a launch has no times."""
        return None if self.figures is None else self.figures.means_ms.get(series)

    def value(self, source: Source) -> float | None:
        """Return the figure of the cell that `source` defines; times in ms. None if it is missing or impossible.

        source: a mean or a percentile of a series of times, or a value of each result with the way to combine them.
        """
        match source:
            case OfResults(read, pool):
                values = self.each(lambda launch: read(launch.result))
                return float(pool(values)) if values else None
            case Percentile(series, name):
                summary = self.figures.pooled.get(series) if self.figures and self._possible(series) else None
                return None if summary is None else cast("float | None", getattr(summary, name))
            case SeriesName():
                return self.mean_ms(source) if self._possible(source) else None

    def _possible(self, series: SeriesName) -> bool:
        """Whether `series` is plausible. Every series is, except perhaps the latency.

        The latency includes the forward pass, so it is implausible if its mean is below that of the forward pass.
        """
        latency_ms, forward_ms = self.mean_ms(SeriesName.LATENCY), self.mean_ms(SeriesName.FORWARD)
        impossible = latency_ms is not None and forward_ms is not None and latency_ms < forward_ms
        return series is not SeriesName.LATENCY or not impossible

    def median(self, read: Callable[[LaunchEvidence], float | None]) -> float | None:
        """Return the median of what `read` returns for the launches; None if it returns only None."""
        values = self.each(read)
        return float(median(values)) if values else None

    def each(self, read: Callable[[LaunchEvidence], float | None]) -> tuple[float, ...]:
        """Return the values that `read` returns for the launches, in their order. Launches with None are skipped."""
        return tuple(value for launch in self.launches if (value := read(launch)) is not None)

    def largest(self, read: Callable[[LaunchEvidence], float | None]) -> float | None:
        """Return the maximum of what `read` returns for the launches; None if it returns only None."""
        values = self.each(read)
        return float(max(values)) if values else None

    def largest_mb(self, read: Callable[[LaunchEvidence], int | None]) -> float | None:
        """Return the maximum in mebibytes of what `read` returns in bytes; None if it returns only None."""
        largest = self.largest(read)
        return None if largest is None else largest / MIB


def peak(memory: Memory) -> int | None:
    """Return the peak of PyTorch's allocator in bytes over warm-up and measurement; None on a CPU device."""
    return greater(memory.cold_allocated_bytes, memory.warm_allocated_bytes)


@cache
def _sources(kind: type[Measured], base: type[CellReport]) -> Mapping[str, Source]:
    added = {*kind.__struct_fields__} - {*base.__struct_fields__}
    return {figure.field: figure.source for figure in FIGURES if figure.source and figure.field in added}


def _fields(kind: type[Measured], base: CellReport, valid: ValidLaunches) -> dict[str, Any]:
    return asdict(base) | {field: valid.value(source) for field, source in _sources(kind, type(base)).items()}


def measured(fate: CellReport, valid: ValidLaunches, value: Callable[[LaunchEvidence], float | None]) -> Measured:
    """Return the figures that all workloads share. fate: status and attempts. value: returns a launch's main figure."""
    figures, launches = valid.figures, valid.launches
    on_cpu = valid.device.kind is DeviceKind.CPU
    states = [launch.result.warm_up.steady_state for launch in launches]
    bound = [launch.figures.host_bound for launch in launches if launch.figures.host_bound is not None]
    unsettled = max(valid.each(lambda launch: launch.figures.lasting_change), key=abs, default=None)
    unsteady = SteadyState.NONE in states or unsettled is not None
    values = valid.each(value)
    energy_j = valid.median(_energy_per_sample)
    read = [launch.readings for launch in launches if launch.readings.power_draw_w is not None]
    notes = dict.fromkeys(launch.note for launch in read or [launch.readings for launch in launches] if launch.note)
    return Measured(
        **_fields(Measured, fate, valid),
        steady_state=SteadyState.NONE if unsteady else next(iter(states), None),
        stop_reason=", ".join(dict.fromkeys(launch.result.stop_reason for launch in launches)) or None,
        warm_up_iterations=sum(launch.result.warm_up.iterations for launch in launches) if launches else None,
        first_iteration_ms=valid.median(lambda launch: launch.result.warm_up.first_iteration_ms),
        second_iteration_ms=valid.median(lambda launch: launch.result.warm_up.second_iteration_ms),
        iterations=figures.iterations if figures else None,
        measured_seconds=figures.measured_s if figures else None,
        relative_half_width=figures.relative_half_width if figures else None,
        launch_spread_percent=figures.launch_spread_percent if figures else None,
        launch_values=values,
        launch_interval_percent=percent(launch_interval(values)),
        drift_percent=figures.drift_percent if figures else None,
        drifting=figures.drifting if figures else None,
        unsettled_percent=percent(unsettled),
        launch_bound=any(bound) if bound else None,
        peak_memory_mb=valid.largest_mb(
            lambda launch: launch.result.memory.resident_bytes if on_cpu else peak(launch.result.memory)
        ),
        memory_basis=(RESIDENT if on_cpu else "allocated") if launches else None,
        gpu_memory_used_mb=valid.largest_mb(lambda launch: launch.readings.memory_used_bytes),
        gpu_utilization_percent=valid.median(lambda launch: launch.readings.gpu_utilization_percent),
        memory_utilization_percent=valid.median(lambda launch: launch.readings.memory_utilization_percent),
        power_draw_w=valid.median(lambda launch: launch.readings.power_draw_w),
        energy_per_sample_j=energy_j,
        samples_per_sec_per_watt=1 / energy_j if energy_j else None,
        temperature_c=valid.median(lambda launch: launch.readings.temperature_c),
        temperature_max_c=valid.largest(lambda launch: launch.readings.temperature_max_c),
        sm_clock_mhz=valid.median(lambda launch: launch.readings.sm_clock_mhz),
        sm_clock_drift_percent=max(
            valid.each(lambda launch: launch.readings.sm_clock_drift_percent), key=abs, default=None
        ),
        memory_clock_mhz=valid.median(lambda launch: launch.readings.memory_clock_mhz),
        clock_event_reasons=tuple(clock_events.reason_names(launch.readings.reasons for launch in launches)),
        power_capped_percent=percent(valid.largest(lambda launch: launch.readings.power_violation)),
        slowdown_percent=percent(valid.largest(lambda launch: launch.readings.slowdown)),
        throttled=throttled(launches),
        contaminated=contaminated(valid.device, launches),
        telemetry_note="a CPU device has no NVML" if on_cpu else "; ".join(notes),
        statistics=_statistics(valid),
    )


def throttled(launches: Sequence[LaunchEvidence]) -> bool | None:
    """Whether any launch was throttled. None if none is known to be and one lacks telemetry, or without launches."""
    states = [validity.throttled(one.readings) for one in launches]
    if True in states:
        return True
    return None if None in states or not states else False


def contaminated(device: Device, launches: Iterable[LaunchEvidence]) -> bool:
    """Whether another process used the device at the start of the run, or during one of the launches."""
    return device.busy_with is not None or any(launch.beside for launch in launches)


def _energy_per_sample(launch: LaunchEvidence) -> float | None:
    energy_j, result = launch.readings.energy_j, launch.result
    items = launch.figures.items + (result.load.iterations * result.items_per_iteration if result.load else 0)
    return energy_j / items if energy_j is not None and items else None


def _statistics(valid: ValidLaunches) -> Statistics | None:
    pooled = valid.figures.pooled if valid.figures else {}
    iteration, forward = pooled.get(SeriesName.ITERATION), pooled.get(SeriesName.FORWARD)
    if iteration is None:
        return None
    return Statistics(
        pooled_launches=len(valid.launches),
        values=iteration.count,
        values_cover=valid.launches[0].result.group,
        outliers=iteration.outliers,
        **{f"forward_time_{name}": getattr(forward, name) if forward else None for name in _SUMMARY},
        **{f"iteration_time_{name}": getattr(iteration, name) for name in _SUMMARY},
    )


def load(base: Measured, valid: ValidLaunches) -> LoadMetrics:
    """Return the figures of a cell that measures loading of its model. base: from `measured`."""
    return LoadMetrics(
        **_fields(LoadMetrics, base, valid),
        memory_allocated_mb=valid.largest_mb(_model_bytes),
    )


def phase(base: Measured, valid: ValidLaunches, spec: ModelSpec, plausibility: Plausibility) -> PhaseMetrics:
    """Return the figures of an inference or training cell, with `plausibility`. base: from `measured`."""
    reads_tokens = spec.sizes is not None and spec.sizes.unit is SizeUnit.TOKENS
    figures = valid.figures
    latency = figures.pooled.get(SeriesName.LATENCY) if figures else None
    return PhaseMetrics(
        **_fields(PhaseMetrics, base, valid),
        sample_unit=spec.item,
        plausibility=plausibility,
        inference_latency_values=latency.count if latency else None,
        throughput_samples_per_sec=figures.throughput if figures else None,
        loss=valid.launches[0].result.loss if valid.launches else None,
        energy_per_token_j=_each(base.energy_per_sample_j, valid.cell.input_size if reads_tokens else None),
        compilation=compilation([one.result for one in valid.launches], valid.cell.precision),
    )


def _each(energy_j: float | None, tokens: int | None) -> float | None:
    return energy_j / tokens if energy_j is not None and tokens else None


def generation(base: Measured, valid: ValidLaunches, plausibility: Plausibility) -> GenerationMetrics:
    """Return the figures of a cell that generates text, with `plausibility`. base: from `measured`."""
    figures, cell = valid.figures, valid.cell
    tokens, expected = (figures.tokens, figures.tokens_expected) if figures else (None, None)
    whole_ms, first_ms = valid.mean_ms(SeriesName.ITERATION), valid.mean_ms(SeriesName.FIRST_TOKEN)
    return GenerationMetrics(
        **_fields(GenerationMetrics, base, valid),
        sample_unit="sequences",
        plausibility=plausibility,
        prompt_tokens=cell.input_size,
        new_tokens=cell.new_tokens,
        time_per_output_token_ms=_per_output_token(whole_ms, first_ms, cell.new_tokens),
        inter_token_mean_ms=valid.mean_ms(SeriesName.INTER_TOKEN),
        tokens_per_second=figures.tokens_per_second if figures else None,
        tokens_generated=tokens,
        tokens_expected=expected,
        tokens_complete=None if tokens is None or expected is None else tokens == expected,
        energy_per_token_j=_each(base.energy_per_sample_j, cell.new_tokens),
    )


def probe(base: Measured, valid: ValidLaunches, spec: ModelSpec) -> ProbeMetrics:
    """Return a probe's figures: medians over its launches, but the largest `best_tflops`.

    base: from `measured`. spec: the probe in the catalogue, for its name and title.
    """
    cell, device = valid.cell, valid.device
    return ProbeMetrics(
        **_fields(ProbeMetrics, base, valid),
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        name=spec.name,
        title=spec.title,
        precision=cell.precision,
        mode=cell.mode,
        best_tflops=valid.largest(_best_tflops),
        sustained_tflops=valid.median(_sustained_tflops),
        copy_gb_per_sec=valid.median(lambda launch: _gb_per_sec(launch, SeriesName.COPY)),
        triad_gb_per_sec=valid.median(lambda launch: _gb_per_sec(launch, SeriesName.TRIAD)),
        transfer_gb_per_sec=valid.median(lambda launch: _gb_per_sec(launch, SeriesName.ITERATION)),
    )


def seen(valid: ValidLaunches, *, generates: bool) -> Seen | None:
    """Return the facts for `plausibility.judge`; None without a result. generates: whether the cell writes text."""
    iteration_ms = valid.mean_ms(SeriesName.ITERATION)
    if not valid.launches or not iteration_ms:
        return None
    result = valid.launches[0].result
    return Seen(
        iteration_ms=iteration_ms,
        flops=result.flops_per_iteration,
        model_bytes=result.memory.model_bytes,
        generates=generates,
        covered=min(valid.each(lambda launch: launch.figures.covered), default=None),
    )


def _rate_of_probe(launch: LaunchEvidence) -> float | None:
    copied, carried = _gb_per_sec(launch, SeriesName.COPY), _gb_per_sec(launch, SeriesName.ITERATION)
    return next((rate for rate in (_sustained_tflops(launch), copied, carried) if rate is not None), None)


def _throughput(launch: LaunchEvidence) -> float | None:
    return launch.figures.throughput


LAUNCH_VALUE: Final[Mapping[Workload, Callable[[LaunchEvidence], float | None]]] = {
    Workload.LOAD: lambda launch: launch.figures.means_ms.get(SeriesName.ITERATION),
    Workload.INFERENCE: _throughput,
    Workload.TRAINING: _throughput,
    Workload.GENERATION: lambda launch: launch.figures.tokens_per_second,
    Workload.PROBE: _rate_of_probe,
}
"""Workload (no check, no operator) → reader of the figure that launches are compared by: a rate, or ms of loading."""


def _per_output_token(whole_ms: float | None, first_ms: float | None, new_tokens: int | None) -> float | None:
    if whole_ms is None or first_ms is None or new_tokens is None or new_tokens < 2:
        return None
    return (whole_ms - first_ms) / (new_tokens - 1)


def _best_tflops(launch: LaunchEvidence) -> float | None:
    """Return a probe's highest TFLOP/s, measured or seen in its search for the best shape; None without a time."""
    means_ms = launch.figures.means_ms
    times_ms = (means_ms.get(SeriesName.BEST), means_ms.get(SeriesName.ITERATION), launch.figures.quickest_block_ms)
    return _tflops(launch, min((time_ms for time_ms in times_ms if time_ms), default=None))


def _sustained_tflops(launch: LaunchEvidence) -> float | None:
    return _tflops(launch, launch.figures.means_ms.get(SeriesName.ITERATION))


def _tflops(launch: LaunchEvidence, time_ms: float | None) -> float | None:
    operations = launch.result.flops_per_iteration
    return None if not time_ms or operations is None else operations / (time_ms * 1e9)


def _gb_per_sec(launch: LaunchEvidence, series: SeriesName) -> float | None:
    time_ms, moved = launch.figures.means_ms.get(series), launch.result.bytes_per_iteration.get(series)
    return None if not time_ms or moved is None else moved / (time_ms * 1e6)


def _model_bytes(launch: LaunchEvidence) -> int:
    """Return the memory in bytes that a loaded model needs, from a launch that measures loading.

    It is the peak of PyTorch's allocator; on a CPU device, the size of the model.
    """
    allocated = peak(launch.result.memory)
    return launch.result.memory.model_bytes if allocated is None else allocated
