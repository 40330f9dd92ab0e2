"""Table of all figures of a cell. Uses: JSON, CSV, PyTorch's records, comparisons, thresholds.

A figure is a row here and, mostly, a field of the report's types (figures/cells.py). The row names the source of a
figure that workers measure. analysis/cell_figures.py computes the others.
"""

import enum
import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from orchestrator.config.workloads import PHASES
from orchestrator.figures.cells import CompilationFigures, Computed, LoadMetrics, Measured, PhaseMetrics
from orchestrator.figures.operators import OperatorMetric
from orchestrator.figures.parts import Plausibility
from orchestrator.figures.sources import OfResults, Percentile, Source, greater, largest_mb, percent
from orchestrator.plan.probes import PROBES
from protocol.cell import Workload
from protocol.result import SeriesName

Value = str | int | float | bool | None
Metric = Measured | OperatorMetric


class Better(enum.Enum):
    """Whether a higher or a lower value of a figure is better."""

    HIGHER = enum.auto()
    LOWER = enum.auto()
    NEITHER = enum.auto()


class LimitName(enum.StrEnum):
    """Figures that thresholds can limit. compare/limit_targets.py defines EPOCH_TIME and the last three."""

    CALL_TIME = "call_time_ms"
    COLD_COMPILE = "compile_cold_ms"
    LATENCY = "latency_ms"
    FORWARD_TIME = "forward_time_ms"
    ITERATION_TIME = "iteration_time_ms"
    ITERATION_TIME_P95 = "iteration_time_p95_ms"
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


@dataclass(frozen=True)
class Limit:
    """How a threshold limits a figure. unit: of the threshold. scale: factor from the report's unit to it.

    least, most: range of the figure's possible values, in `unit`. of_time: whether the figure is computed from a time,
    and so not judged in a cell with a fault such as throttling (compare/cell_facts.py).
    """

    name: LimitName
    _: KW_ONLY
    unit: str
    scale: float = 1.0
    least: float = 0.0
    most: float = math.inf
    of_time: bool = True


@dataclass(frozen=True)
class Figure:
    """A figure of a cell: its names, its unit, where it comes from, and what uses it.

    field: its name. Without `read`, the field in the JSON report has the same name. column, title, heading: name in
    CSV, in the text report, and in the table of all cells (HTML). With "", the figure is not shown there. All three
    show figures in the order of this table. source: how it is computed from the results of the launches; None:
    analysis/cell_figures.py computes it otherwise. unit: of the value, such as "ms", or "". better: whether higher or
    lower values are better. workloads: workloads that have this figure. main: whether cells are compared by this
    figure. pytorch: whether PyTorch's records contain it. limit: how thresholds limit it; None: they do not. read:
    returns the value from a measurement; None: the value is the measurement's attribute `field`.
    """

    field: str
    column: str = ""
    title: str = ""
    _: KW_ONLY
    source: Source | None = None
    unit: str = ""
    better: Better = Better.NEITHER
    workloads: tuple[Workload, ...] = (*PHASES, Workload.PROBE)
    main: bool = False
    heading: str = ""
    pytorch: bool = False
    limit: Limit | None = None
    read: Callable[[Measured], Value] | None = None

    def of(self, metric: Metric) -> Value:
        """Return the value of this figure in a measurement; None if the measurement lacks it."""
        if self.read is not None and isinstance(metric, Measured):
            return self.read(metric)
        value: Value = getattr(metric, self.field, None)
        return value

    def number(self, metric: Metric) -> float | None:
        """Return the value of this figure in a measurement, in the figure's unit.

        None if the value is missing or text. A bool counts as 0 or 1.
        """
        value = self.of(metric)
        return value if isinstance(value, int | float) else None


def _half_width_percent(metric: Measured) -> float | None:
    return None if metric.relative_half_width is None else metric.relative_half_width * 100


def _p95_ms(metric: Measured) -> float | None:
    return None if metric.statistics is None else metric.statistics.iteration_time_p95_ms


def _p99_ms(metric: Measured) -> float | None:
    return None if metric.statistics is None else metric.statistics.iteration_time_p99_ms


def memory_mb(metric: Measured) -> float | None:
    """Return a cell's peak memory in MB, or the model's memory if the cell measures loading; None if unknown."""
    return metric.memory_allocated_mb if isinstance(metric, LoadMetrics) else metric.peak_memory_mb


def _of_plausibility(read: Callable[[Plausibility], Value]) -> Callable[[Measured], Value]:
    return lambda metric: read(metric.plausibility) if isinstance(metric, Computed) else None


def _of_compilation(read: Callable[[CompilationFigures], Value]) -> Callable[[Measured], Value]:
    return lambda metric: (
        read(metric.compilation) if isinstance(metric, PhaseMetrics) and metric.compilation is not None else None
    )


_LOAD: Final = (Workload.LOAD,)
_INFERENCE: Final = (Workload.INFERENCE,)
_TRAINING: Final = (Workload.TRAINING,)
_BATCHES: Final = (Workload.INFERENCE, Workload.TRAINING)
_GENERATION: Final = (Workload.GENERATION,)
_COMPUTED: Final = (*_BATCHES, Workload.GENERATION)
_PROBE: Final = (Workload.PROBE,)
_OPERATOR: Final = (Workload.OPERATOR,)

_time = partial(Figure, unit="ms", better=Better.LOWER)
_compiling = partial(_time, workloads=_BATCHES)
_rate = partial(Figure, better=Better.HIGHER, pytorch=True)
_memory = partial(Figure, unit="MB")
_lower_percent = partial(Figure, unit="%", better=Better.LOWER)
_milliseconds = partial(Limit, unit="ms")
_of_device = partial(Limit, of_time=False)


def _percentiles(series: SeriesName, field: str, title: str, workloads: tuple[Workload, ...]) -> Iterator[Figure]:
    for name in ("p50", "p95", "p99"):
        yield _time(
            f"{field}_{name}_ms",
            f"{title.replace('-', '_')}_{name}_ms",
            f"{title} {name}",
            source=Percentile(series, f"{name}_ms"),
            workloads=workloads,
            pytorch=True,
        )


FIGURES: Final = (
    _time(
        "forward_time_ms",
        "Forward_ms",
        "Forward Time",
        source=SeriesName.FORWARD,
        workloads=_BATCHES,
        pytorch=True,
        limit=_milliseconds(LimitName.FORWARD_TIME),
    ),
    _time(
        "backward_time_ms",
        "Backward_ms",
        "Backward Time",
        source=SeriesName.BACKWARD,
        workloads=_TRAINING,
        pytorch=True,
    ),
    _time(
        "optimize_step_time_ms",
        "Optimizer_ms",
        "Optimize Step",
        source=SeriesName.OPTIMIZER,
        workloads=_TRAINING,
        pytorch=True,
    ),
    _time(
        "total_iteration_time_ms",
        "Iteration_ms",
        "Total Iteration",
        source=SeriesName.ITERATION,
        workloads=(*_BATCHES, Workload.PROBE),
        pytorch=True,
        limit=_milliseconds(LimitName.ITERATION_TIME),
    ),
    _time("iteration_time_p95_ms", limit=_milliseconds(LimitName.ITERATION_TIME_P95), read=_p95_ms),
    _time("iteration_time_p99_ms", limit=_milliseconds(LimitName.ITERATION_TIME_P99), read=_p99_ms),
    _time(
        "inference_latency_ms",
        "Latency_ms",
        "Latency",
        source=SeriesName.LATENCY,
        workloads=_INFERENCE,
        pytorch=True,
        limit=_milliseconds(LimitName.LATENCY),
    ),
    *_percentiles(SeriesName.LATENCY, "inference_latency", "Latency", workloads=_INFERENCE),
    _rate(
        "throughput_samples_per_sec",
        "Throughput",
        "Throughput",
        unit="smp/s",
        workloads=_BATCHES,
        main=True,
        limit=Limit(LimitName.THROUGHPUT, unit="samples/s"),
    ),
    _time(
        "model_load_time_ms",
        "Load_ms",
        source=SeriesName.ITERATION,
        workloads=_LOAD,
        main=True,
        pytorch=True,
        limit=_milliseconds(LimitName.LOAD_TIME),
    ),
    _time(
        "cold_load_time_ms",
        "Cold_Load_ms",
        source=OfResults(lambda one: one.warm_up.first_iteration_ms),
        workloads=_LOAD,
        pytorch=True,
    ),
    _time("instantiate_time_ms", "Instantiate_ms", source=SeriesName.INSTANTIATE, workloads=_LOAD),
    _time("weights_time_ms", "Weights_ms", source=SeriesName.WEIGHTS, workloads=_LOAD),
    _time("to_device_time_ms", "To_Device_ms", source=SeriesName.TO_DEVICE, workloads=_LOAD),
    _compiling(
        "compile_cold_ms",
        "Compile_Cold_ms",
        workloads=(*_BATCHES, Workload.OPERATOR),
        limit=_milliseconds(LimitName.COLD_COMPILE),
        read=_of_compilation(lambda one: one.cold_compile_ms),
    ),
    _compiling("compile_cached_ms", "Compile_Cached_ms", read=_of_compilation(lambda one: one.cached_compile_ms)),
    _time(
        "time_to_first_token_ms",
        "First_Token_ms",
        "First Token",
        source=SeriesName.FIRST_TOKEN,
        workloads=_GENERATION,
        pytorch=True,
        limit=_milliseconds(LimitName.FIRST_TOKEN),
    ),
    _time("time_per_output_token_ms", "Per_Token_ms", "Each Later Token", workloads=_GENERATION, pytorch=True),
    *_percentiles(SeriesName.INTER_TOKEN, "inter_token", "Inter-Token", workloads=_GENERATION),
    _time("generation_time_ms", title="Whole Text", source=SeriesName.ITERATION, workloads=_GENERATION, pytorch=True),
    _rate(
        "tokens_per_second",
        "Tokens_per_s",
        "Tokens",
        unit="tok/s",
        workloads=_GENERATION,
        main=True,
        limit=Limit(LimitName.TOKENS, unit="tokens/s"),
    ),
    _time("call_ms", workloads=_OPERATOR, main=True, limit=_milliseconds(LimitName.CALL_TIME)),
    Figure("tokens_generated", "Tokens", workloads=_GENERATION),
    Figure("tokens_expected", "Tokens_Expected", workloads=_GENERATION),
    _rate("best_tflops", "Best_TFLOPs", unit="TFLOP/s", workloads=_PROBE),
    _rate("sustained_tflops", "Sustained_TFLOPs", unit="TFLOP/s", workloads=_PROBE, main=True),
    _rate("copy_gb_per_sec", "Copy_GBps", unit="GB/s", workloads=_PROBE, main=True),
    _rate("triad_gb_per_sec", "Triad_GBps", unit="GB/s", workloads=_PROBE),
    _rate("transfer_gb_per_sec", "Transfer_GBps", unit="GB/s", workloads=_PROBE, main=True),
    _memory(
        "peak_memory_mb",
        title="Peak Memory",
        workloads=(*PHASES, Workload.PROBE, Workload.OPERATOR),
        pytorch=True,
        limit=_of_device(LimitName.MEMORY, unit="GB", scale=1 / 1024),
    ),
    _memory("memory_taken_mb", "Memory_MB", heading="Memory MB", read=memory_mb),
    _memory(
        "peak_memory_reserved_mb",
        "Reserved_MB",
        "Peak Reserved",
        source=largest_mb(lambda one: greater(one.memory.cold_reserved_bytes, one.memory.warm_reserved_bytes)),
        pytorch=True,
    ),
    _memory(
        "cold_memory_allocated_mb", "Cold_Allocated_MB", source=largest_mb(lambda one: one.memory.cold_allocated_bytes)
    ),
    _memory(
        "cold_memory_reserved_mb", "Cold_Reserved_MB", source=largest_mb(lambda one: one.memory.cold_reserved_bytes)
    ),
    _memory(
        "warm_memory_allocated_mb",
        "Warm_Allocated_MB",
        "Warm Memory",
        source=largest_mb(lambda one: one.memory.warm_allocated_bytes),
    ),
    _memory(
        "warm_memory_reserved_mb", "Warm_Reserved_MB", source=largest_mb(lambda one: one.memory.warm_reserved_bytes)
    ),
    _memory("gpu_memory_used_mb", "GPU_Memory_Used_MB"),
    Figure(
        "gpu_utilization_percent",
        "GPU_Util_%",
        "GPU Utilization",
        unit="%",
        pytorch=True,
        limit=_of_device(LimitName.UTILIZATION, unit="%", most=100.0),
    ),
    Figure("memory_utilization_percent", "Memory_Util_%", unit="%"),
    Figure(
        "power_draw_w",
        "Power_W",
        "Power Draw",
        unit="W",
        heading="Power W",
        pytorch=True,
        limit=_of_device(LimitName.POWER, unit="W"),
    ),
    Figure("temperature_c", "Temperature_C", "Temperature", unit="C", heading="Temp. C"),
    Figure("temperature_max_c", unit="C", limit=_of_device(LimitName.TEMPERATURE, unit="C", least=-math.inf)),
    Figure("sm_clock_mhz", "SM_Clock_MHz", "SM Clock", unit="MHz", heading="SM MHz"),
    Figure("sm_clock_drift_percent", "SM_Clock_Drift_%", unit="%"),
    Figure("memory_clock_mhz", "Memory_Clock_MHz", unit="MHz"),
    Figure(
        "energy_per_sample_j",
        "Energy_J",
        "Energy a Sample",
        unit="J",
        better=Better.LOWER,
        pytorch=True,
        limit=Limit(LimitName.ENERGY, unit="J"),
    ),
    Figure(
        "energy_per_token_j", "Energy_per_Token_J", "Energy a Token", unit="J", better=Better.LOWER, workloads=_COMPUTED
    ),
    Figure("samples_per_sec_per_watt", "Samples_per_s_per_W", "Samples a Joule", unit="smp/s/W", better=Better.HIGHER),
    Figure("power_capped_percent", "Power_Capped_%", unit="%"),
    _lower_percent("slowdown_percent", "Slowdown_%"),
    Figure("clock_event_reasons", "Clock_Reasons", read=lambda metric: ", ".join(metric.clock_event_reasons) or None),
    Figure("launches", "Launches"),
    Figure("iterations", "Iterations"),
    Figure("measured_seconds", "Measured_s", unit="s"),
    _lower_percent("relative_half_width", "Half_Width_%", "Within Launches", read=_half_width_percent),
    _lower_percent("launch_spread_percent", "Launch_Spread_%", "Launch Spread"),
    _lower_percent("launch_interval_percent", "Launch_Interval_%", "95% Interval"),
    Figure("steady_state", "Steady_State"),
    Figure("stop_reason", "Stop_Reason"),
    Figure("drift_percent", "Drift_%", unit="%"),
    Figure("drifting", "Drifting"),
    Figure("unsettled_percent", "Unsettled_%", unit="%"),
    _lower_percent("host_percent", "Host_%", "Host Share", source=OfResults(lambda one: percent(one.host_share), max)),
    _lower_percent("host_cpu_percent", "Host_CPU_%", "Host CPU", source=OfResults(lambda one: percent(one.host_cpu))),
    _memory(
        "host_memory_mb",
        "Host_Memory_MB",
        "Host Memory",
        source=largest_mb(lambda one: one.memory.resident_bytes or None),
    ),
    Figure("launch_bound", "Launch_Bound"),
    Figure("throttled", "Throttled"),
    Figure("contaminated", "Contaminated"),
    Figure(
        "achieved_tflops",
        "Achieved_TFLOPs",
        "Achieved",
        unit="TFLOP/s",
        better=Better.HIGHER,
        workloads=_COMPUTED,
        read=_of_plausibility(lambda plausibility: plausibility.achieved_tflops),
    ),
    Figure(
        "gemm_percent",
        "Of_GEMM_%",
        "Of GEMM Rate",
        unit="%",
        heading="% GEMM",
        better=Better.HIGHER,
        workloads=_COMPUTED,
        read=_of_plausibility(lambda plausibility: plausibility.gemm_percent),
    ),
    Figure(
        "flags",
        "Flags",
        workloads=_COMPUTED,
        read=_of_plausibility(lambda plausibility: "; ".join(plausibility.flags) or None),
    ),
    Figure(
        "overhead_ms",
        "Overhead_ms",
        unit="ms",
        better=Better.LOWER,
        read=lambda metric: metric.ledger.overhead_ms if metric.ledger else None,
    ),
)
BY_FIELD: Final = {figure.field: figure for figure in FIGURES}
COLUMNS: Final = tuple(figure for figure in FIGURES if figure.column)
"""Figures that have a column in CSV, in the order of the columns."""
HEADED: Final = tuple(figure for figure in FIGURES if figure.heading)
"""Figures that have a column in the table of all cells, in the order of the columns."""
MAIN: Final = {
    workload: [figure for figure in FIGURES if figure.main and workload in figure.workloads] for workload in Workload
}
"""Workload → main figures: one; of probes several, of which each probe has one; none for checks of a burn-in."""
UNITS: Final = {figure.field: figure.unit for figure in FIGURES if figure.main}
"""Field of each main figure (by which cells are compared) → its unit."""


def main_figure(workload: Workload, model_name: str) -> Figure:
    """Return the figure by which cells of this workload are compared.

    model_name: name of the probe; without effect for other workloads. Raises IndexError for a check of a burn-in, which
    has no such figure.
    """
    if workload is Workload.PROBE and model_name in PROBES:
        return BY_FIELD[PROBES[model_name].figure]
    return MAIN[workload][0]
