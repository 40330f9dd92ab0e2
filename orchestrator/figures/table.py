"""Table of the figures of a cell, for JSON, CSV, PyTorch's records, comparisons and thresholds.

A figure is a field of the report's types (figures/cells.py), computed in analysis/cell_figures.py, and a row here.
"""

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from orchestrator.config.workloads import PHASES
from orchestrator.figures.cells import Computed, LoadMetrics, Measured
from orchestrator.figures.parts import Plausibility
from orchestrator.plan.probes import PROBES
from protocol.cell import Workload

Value = str | int | float | bool | None


class Better(enum.Enum):
    """Better direction of a figure."""

    HIGHER = enum.auto()
    LOWER = enum.auto()
    NEITHER = enum.auto()


class LimitName(enum.StrEnum):
    """Figures with thresholds. compare/limit_targets.py reads EPOCH_TIME and the last three, which have no row."""

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


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Threshold of a figure. unit, scale: of the threshold, and the factor from the report's value.

    least, most: range of the figure. of_time: a time, or made of one, which is unknown for a cell at fault
    (compare/cell_facts.py).
    """

    name: LimitName
    unit: str
    scale: float = 1.0
    least: float = 0.0
    most: float = math.inf
    of_time: bool = True


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a cell.

    field: its name in the JSON report. unit: as printed. workloads: that have it. main: their cells are compared by it.
    column: its name in CSV, empty for none. pytorch: it is one of PyTorch's records. read: its value, where that is not
    the field itself.
    """

    field: str
    unit: str = ""
    better: Better = Better.NEITHER
    workloads: tuple[Workload, ...] = (*PHASES, Workload.PROBE)
    main: bool = False
    column: str = ""
    pytorch: bool = False
    limit: Limit | None = None
    read: Callable[[Measured], Value] | None = None

    def of(self, metric: Measured) -> Value:
        """Value of a cell; None where it has no such figure, or it was not measured."""
        value: Value = self.read(metric) if self.read else getattr(metric, self.field, None)
        return value

    def number(self, metric: Measured) -> float | None:
        """Value of a cell as a number."""
        value = self.of(metric)
        return value if isinstance(value, int | float) else None


def _half_width_percent(metric: Measured) -> float | None:
    return None if metric.relative_half_width is None else metric.relative_half_width * 100


def _p99_ms(metric: Measured) -> float | None:
    return None if metric.statistics is None else metric.statistics.iteration_time_p99_ms


def _memory_mb(metric: Measured) -> float | None:
    """Peak of allocated memory; of loading, the model's."""
    return metric.memory_allocated_mb if isinstance(metric, LoadMetrics) else metric.peak_memory_mb


def _of_plausibility(read: Callable[[Plausibility], Value]) -> Callable[[Measured], Value]:
    return lambda metric: read(metric.plausibility) if isinstance(metric, Computed) else None


_HIGHER, _LOWER = Better.HIGHER, Better.LOWER
_LOAD: Final = (Workload.LOAD,)
_INFERENCE: Final = (Workload.INFERENCE,)
_TRAINING: Final = (Workload.TRAINING,)
_BATCHES: Final = (Workload.INFERENCE, Workload.TRAINING)
_GENERATION: Final = (Workload.GENERATION,)
_COMPUTED: Final = (*_BATCHES, Workload.GENERATION)
_PROBE: Final = (Workload.PROBE,)

FIGURES: Final = (
    Figure(
        field="throughput_samples_per_sec",
        unit="smp/s",
        better=_HIGHER,
        workloads=_BATCHES,
        main=True,
        column="Throughput",
        pytorch=True,
        limit=Limit(name=LimitName.THROUGHPUT, unit="samples/s"),
    ),
    Figure(
        field="forward_time_ms",
        unit="ms",
        better=_LOWER,
        workloads=_BATCHES,
        column="Forward_ms",
        pytorch=True,
        limit=Limit(name=LimitName.FORWARD_TIME, unit="ms"),
    ),
    Figure(field="backward_time_ms", unit="ms", better=_LOWER, workloads=_TRAINING, column="Backward_ms", pytorch=True),
    Figure(
        field="optimize_step_time_ms",
        unit="ms",
        better=_LOWER,
        workloads=_TRAINING,
        column="Optimizer_ms",
        pytorch=True,
    ),
    Figure(
        field="total_iteration_time_ms",
        unit="ms",
        better=_LOWER,
        workloads=(*_BATCHES, Workload.PROBE),
        column="Iteration_ms",
        pytorch=True,
        limit=Limit(name=LimitName.ITERATION_TIME, unit="ms"),
    ),
    Figure(
        field="iteration_time_p99_ms",
        unit="ms",
        better=_LOWER,
        limit=Limit(name=LimitName.ITERATION_TIME_P99, unit="ms"),
        read=_p99_ms,
    ),
    Figure(
        field="inference_latency_ms",
        unit="ms",
        better=_LOWER,
        workloads=_INFERENCE,
        column="Latency_ms",
        pytorch=True,
        limit=Limit(name=LimitName.LATENCY, unit="ms"),
    ),
    Figure(
        field="model_load_time_ms",
        unit="ms",
        better=_LOWER,
        workloads=_LOAD,
        main=True,
        column="Load_ms",
        pytorch=True,
        limit=Limit(name=LimitName.LOAD_TIME, unit="ms"),
    ),
    Figure(field="cold_load_time_ms", unit="ms", better=_LOWER, workloads=_LOAD, column="Cold_Load_ms", pytorch=True),
    Figure(field="instantiate_time_ms", unit="ms", better=_LOWER, workloads=_LOAD, column="Instantiate_ms"),
    Figure(field="weights_time_ms", unit="ms", better=_LOWER, workloads=_LOAD, column="Weights_ms"),
    Figure(field="to_device_time_ms", unit="ms", better=_LOWER, workloads=_LOAD, column="To_Device_ms"),
    Figure(field="generation_time_ms", unit="ms", better=_LOWER, workloads=_GENERATION, pytorch=True),
    Figure(
        field="time_to_first_token_ms",
        unit="ms",
        better=_LOWER,
        workloads=_GENERATION,
        column="First_Token_ms",
        pytorch=True,
        limit=Limit(name=LimitName.FIRST_TOKEN, unit="ms"),
    ),
    Figure(
        field="time_per_output_token_ms",
        unit="ms",
        better=_LOWER,
        workloads=_GENERATION,
        column="Per_Token_ms",
        pytorch=True,
    ),
    Figure(field="inter_token_p50_ms", unit="ms", better=_LOWER, workloads=_GENERATION, column="Inter_Token_p50_ms"),
    Figure(field="inter_token_p95_ms", unit="ms", better=_LOWER, workloads=_GENERATION, column="Inter_Token_p95_ms"),
    Figure(field="inter_token_p99_ms", unit="ms", better=_LOWER, workloads=_GENERATION, column="Inter_Token_p99_ms"),
    Figure(
        field="tokens_per_second",
        unit="tok/s",
        better=_HIGHER,
        workloads=_GENERATION,
        main=True,
        column="Tokens_per_s",
        pytorch=True,
        limit=Limit(name=LimitName.TOKENS, unit="tokens/s"),
    ),
    Figure(field="tokens_generated", workloads=_GENERATION, column="Tokens"),
    Figure(field="tokens_expected", workloads=_GENERATION, column="Tokens_Expected"),
    Figure(field="best_tflops", unit="TFLOP/s", better=_HIGHER, workloads=_PROBE, column="Best_TFLOPs", pytorch=True),
    Figure(
        field="sustained_tflops",
        unit="TFLOP/s",
        better=_HIGHER,
        workloads=_PROBE,
        main=True,
        column="Sustained_TFLOPs",
        pytorch=True,
    ),
    Figure(
        field="copy_gb_per_sec",
        unit="GB/s",
        better=_HIGHER,
        workloads=_PROBE,
        main=True,
        column="Copy_GBps",
        pytorch=True,
    ),
    Figure(field="triad_gb_per_sec", unit="GB/s", better=_HIGHER, workloads=_PROBE, column="Triad_GBps", pytorch=True),
    Figure(
        field="transfer_gb_per_sec",
        unit="GB/s",
        better=_HIGHER,
        workloads=_PROBE,
        main=True,
        column="Transfer_GBps",
        pytorch=True,
    ),
    Figure(
        field="peak_memory_mb",
        unit="MB",
        pytorch=True,
        limit=Limit(name=LimitName.MEMORY, unit="GB", scale=1 / 1024, of_time=False),
    ),
    Figure(field="memory_taken_mb", unit="MB", column="Memory_MB", read=_memory_mb),
    Figure(field="peak_memory_reserved_mb", unit="MB", column="Reserved_MB", pytorch=True),
    Figure(field="cold_memory_allocated_mb", unit="MB", column="Cold_Allocated_MB"),
    Figure(field="cold_memory_reserved_mb", unit="MB", column="Cold_Reserved_MB"),
    Figure(field="warm_memory_allocated_mb", unit="MB", column="Warm_Allocated_MB"),
    Figure(field="warm_memory_reserved_mb", unit="MB", column="Warm_Reserved_MB"),
    Figure(field="gpu_memory_used_mb", unit="MB", column="GPU_Memory_Used_MB"),
    Figure(
        field="gpu_utilization_percent",
        unit="%",
        column="GPU_Util_%",
        pytorch=True,
        limit=Limit(name=LimitName.UTILIZATION, unit="%", most=100.0, of_time=False),
    ),
    Figure(field="memory_utilization_percent", unit="%", column="Memory_Util_%"),
    Figure(
        field="power_draw_w",
        unit="W",
        column="Power_W",
        pytorch=True,
        limit=Limit(name=LimitName.POWER, unit="W", of_time=False),
    ),
    Figure(field="temperature_c", unit="C", column="Temperature_C"),
    Figure(
        field="temperature_max_c",
        unit="C",
        limit=Limit(name=LimitName.TEMPERATURE, unit="C", least=-math.inf, of_time=False),
    ),
    Figure(field="sm_clock_mhz", unit="MHz", column="SM_Clock_MHz"),
    Figure(field="sm_clock_drift_percent", unit="%", column="SM_Clock_Drift_%"),
    Figure(field="memory_clock_mhz", unit="MHz", column="Memory_Clock_MHz"),
    Figure(
        field="energy_per_sample_j",
        unit="J",
        better=_LOWER,
        column="Energy_J",
        pytorch=True,
        limit=Limit(name=LimitName.ENERGY, unit="J"),
    ),
    Figure(field="energy_per_token_j", unit="J", better=_LOWER, workloads=_GENERATION, column="Energy_per_Token_J"),
    Figure(field="samples_per_sec_per_watt", unit="smp/s/W", better=_HIGHER, column="Samples_per_s_per_W"),
    Figure(field="power_capped_percent", unit="%", column="Power_Capped_%"),
    Figure(field="slowdown_percent", unit="%", better=_LOWER, column="Slowdown_%"),
    Figure(
        field="clock_event_reasons",
        column="Clock_Reasons",
        read=lambda metric: ", ".join(metric.clock_event_reasons) or None,
    ),
    Figure(field="launches", column="Launches"),
    Figure(field="iterations", column="Iterations"),
    Figure(field="measured_seconds", unit="s", column="Measured_s"),
    Figure(field="relative_half_width", unit="%", better=_LOWER, column="Half_Width_%", read=_half_width_percent),
    Figure(field="launch_spread_percent", unit="%", better=_LOWER, column="Launch_Spread_%"),
    Figure(field="steady_state", column="Steady_State"),
    Figure(field="stop_reason", column="Stop_Reason"),
    Figure(field="drift_percent", unit="%", column="Drift_%"),
    Figure(field="drifting", column="Drifting"),
    Figure(field="launch_bound", column="Launch_Bound"),
    Figure(field="throttled", column="Throttled"),
    Figure(field="contaminated", column="Contaminated"),
    Figure(
        field="achieved_tflops",
        unit="TFLOP/s",
        better=_HIGHER,
        workloads=_COMPUTED,
        column="Achieved_TFLOPs",
        read=_of_plausibility(lambda one: one.achieved_tflops),
    ),
    Figure(
        field="gemm_percent",
        unit="%",
        better=_HIGHER,
        workloads=_COMPUTED,
        column="Of_GEMM_%",
        read=_of_plausibility(lambda one: one.gemm_percent),
    ),
    Figure(
        field="flags",
        workloads=_COMPUTED,
        column="Flags",
        read=_of_plausibility(lambda one: "; ".join(one.flags) or None),
    ),
    Figure(
        field="overhead_ms",
        unit="ms",
        better=_LOWER,
        column="Overhead_ms",
        read=lambda metric: metric.ledger.overhead_ms if metric.ledger else None,
    ),
)
BY_FIELD: Final = {figure.field: figure for figure in FIGURES}
COLUMNS: Final = tuple(figure for figure in FIGURES if figure.column)
"""Columns of CSV."""
MAIN: Final = {workload: [one for one in FIGURES if one.main and workload in one.workloads] for workload in Workload}
"""Figures that cells of a workload are compared by: one, or for probes one of these. Checks have none."""
UNITS: Final = {figure.field: figure.unit for figure in FIGURES if figure.main}
"""Of the figures that cells are compared by."""


def main_figure(workload: Workload, model_name: str) -> Figure:
    """The figure that a cell is compared by. model_name: of a probe, its name."""
    if workload is Workload.PROBE and model_name in PROBES:
        return BY_FIELD[PROBES[model_name].figure]
    return MAIN[workload][0]
