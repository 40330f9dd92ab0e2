"""The chapter of batch scans (`-b auto`): for each scan a table of throughput and memory by batch size."""

from typing import Final

from orchestrator.figures.cells import BatchPoint, BatchScan
from orchestrator.figures.parts import UNSTEADY
from orchestrator.figures.report import Report
from orchestrator.report.device_labels import label_of
from orchestrator.report.numbers import unit
from orchestrator.report.sections import Section, Table, numbers
from protocol.result import SteadyState

MARK: Final = "*"
"""Mark in the row of a batch size that a remark below the table explains."""
BAR: Final = 20
"""Length of the bar of the highest throughput, in characters."""


def batch_scans(report: Report) -> Section | None:
    """Return a table for each scan, with its device in the title if the run has several; None without a scan."""
    if not report.batch_scans:
        return None
    several = len(report.gpu_info) > 1
    parts = (_scan(scan, f", {label_of(scan.gpu_uuid, report)}" if several else "") for scan in report.batch_scans)
    return Section("scans", "Batch sizes", parts=tuple(parts))


def _scan(scan: BatchScan, where: str) -> Section:
    size = "" if scan.input_size is None else f", input {scan.input_size}"
    top = max((point.throughput_samples_per_sec or 0.0 for point in scan.points), default=0.0)
    rows = tuple(_row(point, top, best=point.batch_size == scan.best_batch_size) for point in scan.points)
    doubts = tuple(f"{MARK} batch {point.batch_size}: {words}" for point in scan.points if (words := _doubts(point)))
    columns = numbers("Batch", "Throughput", "Peak Memory", "")
    title = f"{scan.model_name}, {scan.workload} ({scan.precision}{size}{where}): {_found(scan)}"
    return Section("scan", title, tables=(Table("", columns, rows, remarks=doubts),))


def _found(scan: BatchScan) -> str:
    if scan.largest_batch_size is None:
        return scan.reason or scan.status.replace("_", " ")
    bound = f" (bounded by {scan.bounded_by})" if scan.bounded_by else ""
    words = f"best at batch {scan.best_batch_size}, largest {scan.largest_batch_size}{bound}"
    return words if scan.finished else f"{words}; not finished: {scan.reason}"


def _row(point: BatchPoint, top: float, *, best: bool) -> tuple[str, ...]:
    if point.throughput_samples_per_sec is None:
        return (str(point.batch_size), "-", "-", point.why_not)
    bar = "#" * max(1, round(BAR * point.throughput_samples_per_sec / top)) if top else ""
    return (
        str(point.batch_size),
        unit(point.throughput_samples_per_sec, "smp/s") + (f" {MARK}" if _doubts(point) else ""),
        unit(point.peak_memory_mb, "MB"),
        f"{bar} best" if best else bar,
    )


def _doubts(point: BatchPoint) -> str:
    unsteady = UNSTEADY if point.steady_state == SteadyState.NONE else ""
    moved = point.drifting and point.drift_percent is not None
    return "; ".join(filter(None, (unsteady, f"drifting by {point.drift_percent:+.1f}%" if moved else "")))
