"""The report as CSV: a row for each planned cell (model and configuration on one device).

A batch size scan (`-b auto`) has a row for each size, and one for its cell if that has no result. Batch_Size is the
size that was measured. If Refers_To names another cell, the figures are in the row of that cell, and Batch_Size is its
size. Batch_Size is N/A without figures, and for workloads without batches, such as load.
"""

import csv
import io
from collections.abc import Iterator
from typing import Final

from orchestrator.config.workloads import OF_NO_MODEL, WITHOUT_BATCH
from orchestrator.figures import keys, table
from orchestrator.figures.cells import BatchPoint, BatchScan, Measured, PhaseMetrics, Status
from orchestrator.figures.quality import quality
from orchestrator.figures.report import CellEntry, Report
from orchestrator.figures.table import Value
from orchestrator.report.numbers import NOT_AVAILABLE
from orchestrator.report.remarks import OWN_CODE
from orchestrator.system.plain_text import plain

Row = dict[str, Value]

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_REQUIRED: Final = ("Model", "Type", "Batch_Size", "Forward_ms", "Backward_ms", "Throughput", "GPU_Util_%", "Memory_MB")
COLUMNS: Final = (
    *_REQUIRED,
    *("GPU", "GPU_UUID", "GPU_Name", "Precision", "Phase", "Mode", "Input_Size", "Requested_Batch"),
    *("Compile_Mode", "Status", "Quality", "Memory_Format", "New_Tokens"),
    *(figure.column for figure in table.COLUMNS if figure.column not in _REQUIRED),
    *("Refers_To", "Attempts", "Reason", "Scan"),
)
_FACTS: Final = {
    "Model": "model_name",
    "Type": "model_type",
    "GPU": "gpu_id",
    "GPU_UUID": "gpu_uuid",
    "Precision": "precision",
    "Phase": "workload",
    "Mode": "mode",
    "Compile_Mode": "compile_mode",
    "Input_Size": "input_size",
    "Memory_Format": "memory_format",
    "New_Tokens": "new_tokens",
    "Batch_Size": "batch_size",
    "Requested_Batch": "batch_size_requested",
    "Status": "status",
    "Launches": "launches",
    "Refers_To": "refers_to",
    "Attempts": "attempts",
    "Reason": "reason",
}
"""Column → name of the field that it shows, in those types of the report that have such a field."""
_NO_BATCH: Final[Row] = {"Batch_Size": None, "Requested_Batch": None}


def to_csv(report: Report) -> str:
    """Return the report as CSV text: a header, commas, LF line ends, N/A for unknown values."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in to_rows(report):
        writer.writerow({column: NOT_AVAILABLE if value is None else value for column, value in row.items()})
    return text.getvalue()


def to_rows(report: Report) -> list[Row]:
    """Return rows as in the module's docstring: column (all of COLUMNS) → value, None if unknown."""
    scans = {scan.cell: scan for scan in report.batch_scans}
    seen = {*scans, *(probe.cell for probe in report.probes)}
    rows: list[Row] = []
    for result in report.results:
        for key, metric in keys.of_model(result):
            seen.add(metric.cell)
            row = {**_measured(metric), **_facts(result), "Phase": key.phase}
            own = isinstance(metric, PhaseMetrics) and metric.compilation is not None and metric.compilation.own
            row |= {"Compile_Mode": OWN_CODE} if own else {}
            row |= _NO_BATCH if key.phase in WITHOUT_BATCH else {}
            scan = scans.pop(metric.cell, None)
            rows += [row] if scan is None else _curve(scan, row)
    for scan in scans.values():  # without a result
        rows += [_facts(scan), *_curve(scan, {})]
    of_probe: Row = {"Type": "probe", "Phase": "probe", **_NO_BATCH}
    rows += [{**_measured(probe), "Model": probe.name, **of_probe} for probe in report.probes]
    unmeasured = (entry for entry in report.cells if entry.cell not in seen)
    rows += [{**_facts(entry), **(_NO_BATCH if entry.workload in OF_NO_MODEL else {})} for entry in unmeasured]
    names: dict[Value, str] = {device.gpu_uuid: device.gpu_name for device in report.gpu_info}
    for row in rows:
        row["GPU_Name"] = names[row["GPU_UUID"]]
    return [{column: harmless(row.get(column)) for column in COLUMNS} for row in rows]


def _facts(one: object) -> Row:
    found = {column: getattr(one, field) for column, field in _FACTS.items() if hasattr(one, field)}
    if isinstance(one, Measured | CellEntry):
        known = one.quality if isinstance(one, CellEntry) else None
        found["Quality"] = known or quality(one.status, one if isinstance(one, Measured) else None)
    return found | ({"Reason": found["Reason"] or None} if "Reason" in found else {})


def _measured(metric: Measured) -> Row:
    figures = {figure.column: figure.of(metric) for figure in table.COLUMNS}
    return {**_facts(metric), **figures, "Attempts": len(metric.attempts)}


def _curve(scan: BatchScan, of_cell: Row) -> Iterator[Row]:
    """Yield a row for each batch size of a scan.

    of_cell: the row with the figures of the scan's cell, {} if it has no result. The row of the best batch size is
    marked "best", and its entries are replaced by those of `of_cell`.
    """
    for point in scan.points:
        row = {**_facts(scan), **_point(point)}
        yield {**row, **of_cell, "Scan": "best"} if point.batch_size == scan.best_batch_size else row


def _point(point: BatchPoint) -> Row:
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


def harmless(value: Value) -> Value:
    """Return a float with six significant digits, text as one line ("'" before a spreadsheet formula), others as is."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if not isinstance(value, str):
        return value
    quoted = value.startswith(_FORMULA)
    value = plain(value)
    return f"'{value}" if quoted or value.startswith(_FORMULA) else value
