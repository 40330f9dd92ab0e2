"""The figures of one cell as the report writes them: names and units of the requirements, None for what is unknown.

Each function gives the fields that its kind of metric has beyond CellReport and Measured.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from orchestrator.analysis.cell_figures import Fields, each, largest, mb, middle, peak
from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.analysis.plausibility import Seen
from orchestrator.stats.launch import CellFigures
from protocol.cell import Cell, Workload
from protocol.result import Memory

Launches = Sequence[LaunchEvidence]


def load(cell: CellFigures | None, launches: Launches) -> Fields:
    """The fields of LoadMetrics. The first load of a process is what its warm-up calls the first iteration."""
    means = cell.means_ms if cell else {}
    return {
        "model_load_time_ms": means.get("iteration"),
        "cold_load_time_ms": middle(launches, lambda one: one.warm_up.first_iteration_ms),
        "instantiate_time_ms": means.get("instantiate"),
        "weights_time_ms": means.get("weights"),
        "to_device_time_ms": means.get("to_device"),
        "memory_allocated_mb": mb(largest(launches, lambda one: _model_bytes(one.memory))),
        "launch_values": each(launches, VALUES[Workload.LOAD]),
    }


def phase(cell: CellFigures | None, launches: Launches, item: str) -> Fields:
    """The fields of PhaseMetrics. item: what a sample is called."""
    means = cell.means_ms if cell else {}
    latency = cell.pooled.get("latency") if cell else None
    return {
        "forward_time_ms": means.get("forward"),
        "backward_time_ms": means.get("backward"),
        "optimize_step_time_ms": means.get("optimizer"),
        "total_iteration_time_ms": means.get("iteration"),
        "inference_latency_ms": means.get("latency"),
        "inference_latency_values": latency.count if latency else None,
        "throughput_samples_per_sec": cell.throughput if cell else None,
        "launch_values": each(launches, _throughput),
        "sample_unit": item,
        "loss": launches[0].loss if launches else None,
    }


def generation(cell: CellFigures | None, launches: Launches, planned: Cell) -> Fields:
    """The fields of GenerationMetrics."""
    means = cell.means_ms if cell else {}
    between = cell.pooled.get("inter_token") if cell else None
    tokens, expected = (cell.tokens, cell.tokens_expected) if cell else (None, None)
    whole_ms, first_ms = means.get("iteration"), means.get("first_token")
    return {
        "prompt_tokens": planned.input_size,
        "new_tokens": planned.new_tokens,
        "generation_time_ms": whole_ms,
        "time_to_first_token_ms": first_ms,
        "time_per_output_token_ms": _per_output_token(whole_ms, first_ms, planned.new_tokens),
        "inter_token_mean_ms": means.get("inter_token"),
        "inter_token_p50_ms": between.p50_ms if between else None,
        "inter_token_p95_ms": between.p95_ms if between else None,
        "inter_token_p99_ms": between.p99_ms if between else None,
        "tokens_per_second": cell.tokens_per_second if cell else None,
        "launch_values": each(launches, VALUES[Workload.GENERATION]),
        "tokens_generated": tokens,
        "tokens_expected": expected,
        "tokens_complete": None if tokens is None or expected is None else tokens == expected,
        "energy_per_token_j": middle(launches, _energy_per_token),
        "sample_unit": "sequences",
    }


def seen(cell: CellFigures | None, launches: Launches, planned: Cell) -> Seen | None:
    """What the plausibility of a cell is judged by, None where it has no result."""
    if cell is None or not launches or not cell.means_ms.get("iteration"):
        return None
    return Seen(
        iteration_ms=cell.means_ms["iteration"],
        flops=launches[0].flops_per_iteration,
        model_bytes=launches[0].memory.model_bytes,
        generates=planned.workload is Workload.GENERATION,
    )


def probe(cell: CellFigures | None, launches: Launches) -> Fields:
    """The fields of ProbeMetrics that were measured. Rates are made launch by launch: each finds its own best shape."""
    return {
        "total_iteration_time_ms": cell.means_ms.get("iteration") if cell else None,
        "best_tflops": max((rate for one in launches if (rate := _best_tflops(one)) is not None), default=None),
        "sustained_tflops": middle(launches, lambda one: _tflops(one, "iteration")),
        "copy_gb_per_sec": middle(launches, lambda one: _gb_per_sec(one, "copy")),
        "triad_gb_per_sec": middle(launches, lambda one: _gb_per_sec(one, "triad")),
        "transfer_gb_per_sec": middle(launches, lambda one: _gb_per_sec(one, "iteration")),
        "launch_values": each(launches, VALUES[Workload.PROBE]),
    }


def _rate_of_probe(launch: LaunchEvidence) -> float | None:
    """The first that this kind of probe has, in the order of cross_gpu.FIGURES."""
    rates = (_tflops(launch, "iteration"), _gb_per_sec(launch, "copy"), _gb_per_sec(launch, "iteration"))
    return next((rate for rate in rates if rate is not None), None)


def _throughput(launch: LaunchEvidence) -> float | None:
    return launch.figures.throughput


VALUES: Final[Mapping[Workload, Callable[[LaunchEvidence], float | None]]] = MappingProxyType(
    {
        Workload.LOAD: lambda launch: launch.figures.means_ms.get("iteration"),
        Workload.INFERENCE: _throughput,
        Workload.TRAINING: _throughput,
        Workload.GENERATION: lambda launch: launch.figures.tokens_per_second,
        Workload.PROBE: _rate_of_probe,
    }
)
"""The figure of a launch that cells are compared by; checks of a burn-in have none."""


def _per_output_token(whole_ms: float | None, first_ms: float | None, new_tokens: int | None) -> float | None:
    if whole_ms is None or first_ms is None or new_tokens is None or new_tokens < 2:
        return None
    return (whole_ms - first_ms) / (new_tokens - 1)


def _energy_per_token(launch: LaunchEvidence) -> float | None:
    energy_j, tokens = launch.readings.energy_j, launch.figures.tokens
    return energy_j / tokens if energy_j is not None and tokens else None


def _best_tflops(launch: LaunchEvidence) -> float | None:
    """The quickest that was seen: the burst that chose the shape, or a block of the measurement that was quicker."""
    times_ms = [launch.figures.means_ms.get("best"), launch.figures.means_ms.get("iteration")]
    known = [time_ms for time_ms in (*times_ms, launch.figures.quickest_block_ms) if time_ms]
    return _rate(min(known, default=None), launch.flops_per_iteration)


def _tflops(launch: LaunchEvidence, series: str) -> float | None:
    return _rate(launch.figures.means_ms.get(series), launch.flops_per_iteration)


def _rate(time_ms: float | None, operations: float | None) -> float | None:
    return None if not time_ms or operations is None else operations / (time_ms * 1e9)


def _gb_per_sec(launch: LaunchEvidence, series: str) -> float | None:
    time_ms, moved = launch.figures.means_ms.get(series), launch.bytes_per_iteration.get(series)
    return None if not time_ms or moved is None else moved / (time_ms * 1e6)


def _model_bytes(memory: Memory) -> int:
    """What the allocator holds for the model; on a CPU device, where it does not say, parameters and buffers."""
    allocated = peak(memory)
    return memory.model_bytes if allocated is None else allocated
