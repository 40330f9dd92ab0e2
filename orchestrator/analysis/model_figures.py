"""The figures of one cell as the report has them: names and units of the requirements, None for what is unknown.

Each function takes what every measurement has and adds the figures of its kind.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import asdict

from orchestrator.analysis.cell_figures import Counted, peak
from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.analysis.plausibility import Seen
from orchestrator.figures.cells import GenerationMetrics, LoadMetrics, Measured, PhaseMetrics, ProbeMetrics
from orchestrator.figures.parts import Plausibility
from protocol.cell import ModelSpec, Workload
from protocol.result import SeriesName


def load(base: Measured, counted: Counted) -> LoadMetrics:
    """Of loading. The first load of a process is what its warm-up calls the first iteration."""
    return LoadMetrics(
        **asdict(base),
        model_load_time_ms=counted.mean_ms(SeriesName.ITERATION),
        cold_load_time_ms=base.first_iteration_ms,
        instantiate_time_ms=counted.mean_ms(SeriesName.INSTANTIATE),
        weights_time_ms=counted.mean_ms(SeriesName.WEIGHTS),
        to_device_time_ms=counted.mean_ms(SeriesName.TO_DEVICE),
        memory_allocated_mb=counted.largest_mb(_model_bytes),
    )


def phase(base: Measured, counted: Counted, item: str, plausibility: Plausibility) -> PhaseMetrics:
    """Of inference and training. item: what a sample is called."""
    figures = counted.figures
    latency = figures.pooled.get(SeriesName.LATENCY) if figures else None
    return PhaseMetrics(
        **asdict(base),
        sample_unit=item,
        plausibility=plausibility,
        forward_time_ms=counted.mean_ms(SeriesName.FORWARD),
        backward_time_ms=counted.mean_ms(SeriesName.BACKWARD),
        optimize_step_time_ms=counted.mean_ms(SeriesName.OPTIMIZER),
        total_iteration_time_ms=counted.mean_ms(SeriesName.ITERATION),
        inference_latency_ms=counted.mean_ms(SeriesName.LATENCY),
        inference_latency_values=latency.count if latency else None,
        throughput_samples_per_sec=figures.throughput if figures else None,
        loss=counted.launches[0].result.loss if counted.launches else None,
    )


def generation(base: Measured, counted: Counted, plausibility: Plausibility) -> GenerationMetrics:
    """Of generation."""
    figures, cell = counted.figures, counted.cell
    between = figures.pooled.get(SeriesName.INTER_TOKEN) if figures else None
    tokens, expected = (figures.tokens, figures.tokens_expected) if figures else (None, None)
    whole_ms, first_ms = counted.mean_ms(SeriesName.ITERATION), counted.mean_ms(SeriesName.FIRST_TOKEN)
    return GenerationMetrics(
        **asdict(base),
        sample_unit="sequences",
        plausibility=plausibility,
        prompt_tokens=cell.input_size,
        new_tokens=cell.new_tokens,
        generation_time_ms=whole_ms,
        time_to_first_token_ms=first_ms,
        time_per_output_token_ms=_per_output_token(whole_ms, first_ms, cell.new_tokens),
        inter_token_mean_ms=counted.mean_ms(SeriesName.INTER_TOKEN),
        inter_token_p50_ms=between.p50_ms if between else None,
        inter_token_p95_ms=between.p95_ms if between else None,
        inter_token_p99_ms=between.p99_ms if between else None,
        tokens_per_second=figures.tokens_per_second if figures else None,
        tokens_generated=tokens,
        tokens_expected=expected,
        tokens_complete=None if tokens is None or expected is None else tokens == expected,
        energy_per_token_j=counted.median(_energy_per_token),
    )


def probe(base: Measured, counted: Counted, spec: ModelSpec) -> ProbeMetrics:
    """Of a probe. Rates are made launch by launch: each finds its own best shape."""
    cell, device = counted.cell, counted.device
    return ProbeMetrics(
        **asdict(base),
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        name=spec.name,
        title=spec.title,
        precision=cell.precision,
        mode=cell.mode,
        total_iteration_time_ms=counted.mean_ms(SeriesName.ITERATION),
        best_tflops=counted.largest(_best_tflops),
        sustained_tflops=counted.median(_sustained_tflops),
        copy_gb_per_sec=counted.median(lambda one: _gb_per_sec(one, SeriesName.COPY)),
        triad_gb_per_sec=counted.median(lambda one: _gb_per_sec(one, SeriesName.TRIAD)),
        transfer_gb_per_sec=counted.median(lambda one: _gb_per_sec(one, SeriesName.ITERATION)),
    )


def seen(counted: Counted, *, generates: bool) -> Seen | None:
    """What the plausibility of a cell is judged by, None where it has no result."""
    iteration_ms = counted.mean_ms(SeriesName.ITERATION)
    if not counted.launches or not iteration_ms:
        return None
    result = counted.launches[0].result
    return Seen(
        iteration_ms=iteration_ms,
        flops=result.flops_per_iteration,
        model_bytes=result.memory.model_bytes,
        generates=generates,
    )


def _rate_of_probe(launch: LaunchEvidence) -> float | None:
    """The first that this kind of probe has."""
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
"""The main figure of a launch, by which cells are compared; checks of a burn-in have none."""


def _per_output_token(whole_ms: float | None, first_ms: float | None, new_tokens: int | None) -> float | None:
    if whole_ms is None or first_ms is None or new_tokens is None or new_tokens < 2:
        return None
    return (whole_ms - first_ms) / (new_tokens - 1)


def _energy_per_token(launch: LaunchEvidence) -> float | None:
    energy_j, tokens = launch.readings.energy_j, launch.figures.tokens
    return energy_j / tokens if energy_j is not None and tokens else None


def _best_tflops(launch: LaunchEvidence) -> float | None:
    """The quickest that was seen: the burst that chose the shape, or a block of the measurement that was quicker."""
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
    """What the allocator holds for the model; on a CPU device, where it does not say, parameters and buffers."""
    memory = launch.result.memory
    allocated = peak(memory)
    return memory.model_bytes if allocated is None else allocated
