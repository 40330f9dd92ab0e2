"""Figures in tables: units of the main figures, and the rows of a model's table."""

from collections.abc import Callable
from typing import Final, TypeVar

from orchestrator.figures.cells import Computed, GenerationMetrics, Measured, PhaseMetrics
from orchestrator.figures.comparisons import FullNode, Spread
from orchestrator.figures.table import FIGURES
from orchestrator.report.numbers import NOT_AVAILABLE, share, unit

LOAD: Final = "model_load_time_ms"
UNITS: Final = {figure.field: figure.unit for figure in FIGURES if figure.main}
_PHASES: Final = {"inference": "infer", "training": "train", "generation": "write"}
M = TypeVar("M", bound=Measured)
Row = tuple[str, Callable[[M], str]]
"""Title of a row, and the text of its cell for a metric."""


def interval(metric: Measured) -> str:
    """Half of the 95 % interval of the mean: "+/- 0.25%"."""
    half_width = metric.relative_half_width
    return NOT_AVAILABLE if half_width is None else f"+/- {half_width * 100:.2f}%"


_FORWARD: Final[Row[PhaseMetrics]] = ("Forward Time", lambda one: unit(one.forward_time_ms, "ms"))
_THROUGHPUT: Final[Row[PhaseMetrics]] = ("Throughput", lambda one: unit(one.throughput_samples_per_sec, "smp/s"))
_COMPUTE: Final[tuple[Row[Computed], ...]] = (
    ("Achieved", lambda one: unit(one.plausibility.achieved_tflops, "TFLOP/s")),
    ("Of GEMM Rate", lambda one: share(one.plausibility.gemm_percent)),
)
INFERENCE: Final[tuple[Row[PhaseMetrics], ...]] = (
    _FORWARD,
    ("Latency", lambda one: unit(one.inference_latency_ms, "ms")),
    _THROUGHPUT,
    *_COMPUTE,
)
TRAINING: Final[tuple[Row[PhaseMetrics], ...]] = (
    _FORWARD,
    ("Backward Time", lambda one: unit(one.backward_time_ms, "ms")),
    ("Optimize Step", lambda one: unit(one.optimize_step_time_ms, "ms")),
    ("Total Iteration", lambda one: unit(one.total_iteration_time_ms, "ms")),
    _THROUGHPUT,
    *_COMPUTE,
)
GENERATION: Final[tuple[Row[GenerationMetrics], ...]] = (
    ("First Token", lambda one: unit(one.time_to_first_token_ms, "ms")),
    ("Each Later Token", lambda one: unit(one.time_per_output_token_ms, "ms")),
    ("Inter-Token p50", lambda one: unit(one.inter_token_p50_ms, "ms")),
    ("Inter-Token p95", lambda one: unit(one.inter_token_p95_ms, "ms")),
    ("Inter-Token p99", lambda one: unit(one.inter_token_p99_ms, "ms")),
    ("Whole Text", lambda one: unit(one.generation_time_ms, "ms")),
    ("Tokens", lambda one: unit(one.tokens_per_second, "tok/s")),
    *_COMPUTE,
)
SHARED: Final[tuple[Row[Measured], ...]] = (
    ("95% Interval", interval),
    ("Launch Spread", lambda one: share(one.launch_spread_percent)),
    ("Peak Memory", lambda one: unit(one.peak_memory_mb, "MB")),
    ("Peak Reserved", lambda one: unit(one.peak_memory_reserved_mb, "MB")),
    ("Warm Memory", lambda one: unit(one.warm_memory_allocated_mb, "MB")),
    ("GPU Utilization", lambda one: share(one.gpu_utilization_percent)),
    ("Power Draw", lambda one: unit(one.power_draw_w, "W")),
    ("Energy a Sample", lambda one: unit(one.energy_per_sample_j, "J")),
    ("Temperature", lambda one: unit(one.temperature_c, "C", digits=0)),
    ("SM Clock", lambda one: unit(one.sm_clock_mhz, "MHz", digits=0)),
)


def cell_name(one: Spread | FullNode) -> str:
    """A cell in short: "resnet50 train fp32 b8"."""
    batch = "" if one.phase in ("load", "probe") else f" b{one.batch_size_requested}"
    phase = "" if one.phase == "probe" else f" {_PHASES.get(one.phase, one.phase)}"
    return f"{one.model_name}{phase} {one.precision}{batch}"
