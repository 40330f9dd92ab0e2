"""The report as CSV: a row for each planned cell. The first eight columns are those of the requirements document."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from orchestrator.report.cells import LoadMetrics, ModelResult, PhaseMetrics
from orchestrator.report.model import Report
from orchestrator.report.plain import plain

if TYPE_CHECKING:
    import pandas

Value = str | int | float | bool | None
Row = dict[str, Value]

NOT_AVAILABLE: Final = "N/A"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
COLUMNS: Final = (
    *("Model", "Type", "Batch_Size", "Forward_ms", "Backward_ms", "Throughput", "GPU_Util_%", "Memory_MB"),
    *("GPU", "GPU_UUID", "GPU_Name", "Precision", "Phase", "Mode", "Input_Size", "Requested_Batch", "Status"),
    *("Optimizer_ms", "Iteration_ms", "Load_ms", "Power_W", "Temperature_C", "SM_Clock_MHz", "Energy_J"),
    *("Launches", "Iterations", "Half_Width_%", "Launch_Spread_%", "Steady_State", "Stop_Reason", "Drifting"),
    *("Launch_Bound", "Throttled", "Overhead_ms", "Refers_To", "Attempts", "Reason"),
)


def to_csv(report: Report) -> str:
    """The table as text: UTF-8, commas, newlines; N/A where nothing is known."""
    return table(report).to_csv(index=False, na_rep=NOT_AVAILABLE, lineterminator="\n")


def table(report: Report) -> "pandas.DataFrame":
    """The cells of the report, one a row, every value as it was (no column is coerced to one type)."""
    import pandas

    names = {device.gpu_uuid: device.gpu_name for device in report.gpu_info}
    rows = [
        {column: _safe(row.get(column)) for column in COLUMNS}
        for result in report.results
        for row in _rows(result, names[result.gpu_uuid])
    ]
    return pandas.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def _rows(result: ModelResult, gpu_name: str) -> Iterator[Row]:
    shared: Row = {
        "Model": result.model_name,
        "Type": result.model_type,
        "GPU": result.gpu_id,
        "GPU_UUID": result.gpu_uuid,
        "GPU_Name": gpu_name,
        "Precision": result.precision,
        "Mode": result.mode,
        "Input_Size": result.input_size,
    }
    if result.load_metrics:
        yield {**shared, "Phase": "load", **_load(result.load_metrics)}
    for metrics in result.inference_metrics.values():
        yield {**shared, "Phase": "inference", **_phase(metrics)}
    for metrics in result.training_metrics.values():
        yield {**shared, "Phase": "training", **_phase(metrics)}


def _fate(metrics: LoadMetrics | PhaseMetrics) -> Row:
    return {
        "Batch_Size": metrics.batch_size,
        "Requested_Batch": metrics.batch_size_requested,
        "Status": metrics.status,
        "Launches": metrics.launches,
        "Overhead_ms": metrics.ledger.overhead_ms if metrics.ledger else None,
        "Refers_To": metrics.refers_to,
        "Attempts": len(metrics.attempts),
        "Reason": metrics.reason or None,
    }


def _load(metrics: LoadMetrics) -> Row:
    """Loading has no batch."""
    return {
        **_fate(metrics),
        "Batch_Size": None,
        "Requested_Batch": None,
        "Load_ms": metrics.model_load_time_ms,
        "Memory_MB": metrics.memory_allocated_mb,
    }


def _phase(metrics: PhaseMetrics) -> Row:
    half_width = metrics.relative_half_width
    return {
        **_fate(metrics),
        "Forward_ms": metrics.forward_time_ms,
        "Backward_ms": metrics.backward_time_ms,
        "Throughput": metrics.throughput_samples_per_sec,
        "GPU_Util_%": metrics.gpu_utilization_percent,
        "Memory_MB": metrics.peak_memory_mb,
        "Optimizer_ms": metrics.optimize_step_time_ms,
        "Iteration_ms": metrics.total_iteration_time_ms,
        "Power_W": metrics.power_draw_w,
        "Temperature_C": metrics.temperature_c,
        "SM_Clock_MHz": metrics.sm_clock_mhz,
        "Energy_J": metrics.energy_per_sample_j,
        "Iterations": metrics.iterations,
        "Half_Width_%": None if half_width is None else half_width * 100,
        "Launch_Spread_%": metrics.launch_spread_percent,
        "Steady_State": metrics.steady_state,
        "Stop_Reason": metrics.stop_reason,
        "Drifting": metrics.drifting,
        "Launch_Bound": metrics.launch_bound,
        "Throttled": metrics.throttled,
    }


def _safe(value: Value) -> Value:
    """Text that a spreadsheet would take for a formula gets a leading quote; numbers stay numbers, to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if not isinstance(value, str):
        return value
    quoted = value.startswith(_FORMULA)
    value = plain(value)
    return f"'{value}" if quoted or value.startswith(_FORMULA) else value
