"""The report as CSV: a row for each planned cell. The first eight columns are those of the requirements document.

A scan for the batch size (`-b auto`) has a row for each size that was tried, smallest first: its curve. They are rows
like any other, of a model at a batch; the best size has all figures, as it has in the other formats, and stands there
once. Where nothing ran there is no Batch_Size, as for a cell that failed. A check of a burn-in measures nothing: its
row says what became of it.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.config.workloads import OF_NO_MODEL
from orchestrator.figures import table
from orchestrator.figures.cells import BatchPoint, BatchScan, Measured, ModelResult, ProbeMetrics, Status
from orchestrator.figures.report import CellEntry, Report
from orchestrator.figures.table import Value
from orchestrator.system.plain_text import plain

Row = dict[str, Value]

NOT_AVAILABLE: Final = "N/A"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_REQUIRED: Final = ("Model", "Type", "Batch_Size", "Forward_ms", "Backward_ms", "Throughput", "GPU_Util_%", "Memory_MB")
"""The first columns, as the requirements document has them."""
COLUMNS: Final = (
    *_REQUIRED,
    *("GPU", "GPU_UUID", "GPU_Name", "Precision", "Phase", "Mode", "Input_Size", "Requested_Batch", "Status"),
    *("Memory_Format", "New_Tokens"),
    *(figure.column for figure in table.COLUMNS if figure.column not in _REQUIRED),
    *("Refers_To", "Attempts", "Reason", "Scan"),
)
_WITHOUT_BATCH: Final = {"Batch_Size": None, "Requested_Batch": None}
"""Loading, probes and checks have no batch."""


def to_csv(report: Report) -> str:
    """The table as text: UTF-8, commas, newlines; N/A where nothing is known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in to_rows(report):
        writer.writerow({column: NOT_AVAILABLE if value is None else value for column, value in row.items()})
    return text.getvalue()


def to_rows(report: Report) -> list[Row]:
    """The cells of the report, one a row, with a value or None in every column."""
    names = {device.gpu_uuid: device.gpu_name for device in report.gpu_info}
    scans = {scan.cell: scan for scan in report.batch_scans}
    told = {*scans, *(probe.cell for probe in report.probes)}
    rows: list[Row] = []
    for result in report.results:
        for metric, row in _rows(result, names[result.gpu_uuid]):
            told.add(metric.cell)
            scan = scans.pop(metric.cell, None)
            rows += [row] if scan is None else _curve(scan, names[scan.gpu_uuid], row)
    for scan in scans.values():  # they have found nothing, or not yet: none of the results is theirs
        fate: Row = {"Status": scan.status, "Reason": scan.reason or None}
        rows.append({**_of_scan(scan, names[scan.gpu_uuid]), **fate})
        rows += _curve(scan, names[scan.gpu_uuid], {})
    rows += [_probe(probe, names[probe.gpu_uuid]) for probe in report.probes]
    rows += [_without_figures(entry, names[entry.gpu_uuid]) for entry in report.cells if entry.cell not in told]
    return [{column: harmless(row.get(column)) for column in COLUMNS} for row in rows]


def _rows(result: ModelResult, gpu_name: str) -> Iterator[tuple[Measured, Row]]:
    shared: Row = {
        "Model": result.model_name,
        "Type": result.model_type,
        "GPU": result.gpu_id,
        "GPU_UUID": result.gpu_uuid,
        "GPU_Name": gpu_name,
        "Precision": result.precision,
        "Mode": result.mode,
        "Input_Size": result.input_size,
        "Memory_Format": result.memory_format,
        "New_Tokens": result.new_tokens,
    }
    if load := result.load_metrics:
        yield load, {**shared, "Phase": "load", **_metric(load), **_WITHOUT_BATCH}
    phases: dict[str, Mapping[str, Measured]] = {
        "inference": result.inference_metrics,
        "training": result.training_metrics,
        "generation": result.generation_metrics,
    }
    for phase, metrics in phases.items():
        for metric in metrics.values():
            yield metric, {**shared, "Phase": phase, **_metric(metric)}


def _curve(scan: BatchScan, gpu_name: str, of_cell: Row) -> Iterator[Row]:
    """Every size that was tried. of_cell: all that is known of the best, as far as the cell has a result."""
    for point in scan.points:
        row = {**_of_scan(scan, gpu_name), **_point(point)}
        yield {**row, **of_cell, "Scan": "best"} if point.batch_size == scan.best_batch_size else row


def _of_scan(scan: BatchScan, gpu_name: str) -> Row:
    return {
        "Model": scan.model_name,
        "Type": scan.model_type,
        "GPU": scan.gpu_id,
        "GPU_UUID": scan.gpu_uuid,
        "GPU_Name": gpu_name,
        "Precision": scan.precision,
        "Phase": scan.workload,
        "Mode": scan.mode,
        "Input_Size": scan.input_size,
        "Memory_Format": scan.memory_format,
        "New_Tokens": scan.new_tokens,
    }


def _point(point: BatchPoint) -> Row:
    """Its launch was one of the scan's cell, so that it has no status of a cell where it did not fit."""
    return {
        "Batch_Size": point.batch_size if point.works else None,
        "Requested_Batch": point.batch_size,
        "Status": Status.OK if point.works else None,
        "Throughput": point.throughput_samples_per_sec,
        "Memory_MB": point.peak_memory_mb,
        "Launches": point.launches,
        "Steady_State": point.steady_state,
        "Stop_Reason": point.stop_reason,
        "Half_Width_%": None if point.relative_half_width is None else point.relative_half_width * 100,
        "Drift_%": point.drift_percent,
        "Drifting": point.drifting,
        "Reason": point.why_not or None,
        "Scan": "fits" if point.works else "does not fit",
    }


def _probe(probe: ProbeMetrics, gpu_name: str) -> Row:
    shared: Row = {
        "Model": probe.name,
        "Type": "probe",
        "GPU": probe.gpu_id,
        "GPU_UUID": probe.gpu_uuid,
        "GPU_Name": gpu_name,
        "Precision": probe.precision,
        "Mode": probe.mode,
        "Phase": "probe",
    }
    return {**shared, **_metric(probe), **_WITHOUT_BATCH}


def _without_figures(entry: CellEntry, gpu_name: str) -> Row:
    """A check of a burn-in."""
    sizes: Row = {"Batch_Size": entry.batch_size, "Requested_Batch": entry.batch_size_requested}
    return {
        "Model": entry.model_name,
        "GPU": entry.gpu_id,
        "GPU_UUID": entry.gpu_uuid,
        "GPU_Name": gpu_name,
        "Precision": entry.precision,
        "Phase": entry.workload,
        "Input_Size": entry.input_size,
        "Memory_Format": entry.memory_format,
        "New_Tokens": entry.new_tokens,
        "Status": entry.status,
        "Launches": entry.launches,
        "Refers_To": entry.refers_to,
        "Attempts": entry.attempts,
        "Reason": entry.reason or None,
        **(_WITHOUT_BATCH if entry.workload in OF_NO_MODEL else sizes),
    }


def _metric(metric: Measured) -> Row:
    return {
        "Batch_Size": metric.batch_size,
        "Requested_Batch": metric.batch_size_requested,
        "Status": metric.status,
        **{figure.column: figure.of(metric) for figure in table.COLUMNS},
        "Refers_To": metric.refers_to,
        "Attempts": len(metric.attempts),
        "Reason": metric.reason or None,
    }


def harmless(value: Value) -> Value:
    """Text that a spreadsheet would take for a formula gets a leading quote; numbers stay numbers, to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if not isinstance(value, str):
        return value
    quoted = value.startswith(_FORMULA)
    value = plain(value)
    return f"'{value}" if quoted or value.startswith(_FORMULA) else value
