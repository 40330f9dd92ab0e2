"""The tables of every planned cell (a model in one configuration on one device): its status and its figures."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.config.workloads import WITHOUT_BATCH
from orchestrator.figures.cells import LoadMetrics, Measured
from orchestrator.figures.quality import Quality
from orchestrator.figures.report import Report
from orchestrator.figures.table import HEADED, Figure, memory_mb
from orchestrator.report.device_labels import by_uuid
from orchestrator.report.layout import Layout
from orchestrator.report.lines import Line, lines, per_joule, percentiles_ms, time_ms
from orchestrator.report.numbers import NOT_AVAILABLE, interval, interval_percent, number, share, unit
from orchestrator.report.remarks import remark
from orchestrator.report.sections import Badge, Cells, Entry, Section, Table, Tone, numbers, ranked, texts
from protocol.cell import Mode, Workload

_MORE: Final = "{} more cells are in report.csv and report.json. Cells that are not ok come first here."
LONGEST_REMARK: Final = 300
_TONES: Final = {
    Quality.OK: Tone.GOOD,
    Quality.HOST_BOUND: Tone.QUIET,
    Quality.REFERRED: Tone.QUIET,
    Quality.DROPPED: Tone.QUIET,
    Quality.UNSUPPORTED: Tone.QUIET,
    Quality.FAILED: Tone.BAD,
    Quality.WRONG: Tone.BAD,
}
"""Quality → tone of its badge. All others have Tone.WARN."""
COLUMNS: Final = (
    *texts("GPU", "Model", "Phase", "Precision", "Mode"),
    *numbers("Input", "Batch"),
    *texts("Status"),
    *numbers("Figure"),
    *texts("Unit"),
    *numbers(
        "Time ms", "p50 ms", "p95 ms", "p99 ms", "± %", "Per J", *(figure.heading for figure in HEADED), "Attempts"
    ),
    *texts("Remarks"),
)
CONSTANT: Final = ("Mode", "Attempts")
"""Columns that are hidden if all cells have the same entry."""
_FILTERED: Final = (0, 2, 7)
"""Indices of the columns by whose entries a reader of the HTML page can filter: device, phase and status."""
_CHECKS: Final = (
    *texts("GPU", "Model", "Phase", "Precision", "Status"),
    *numbers("Launches", "Attempts"),
    *texts("Remarks"),
)
"""Columns with layout.checks (burn-in, ops, study): no figures, and no planned number of launches."""
_FILTERED_CHECKS: Final = (0, 2, 4)


def cells(report: Report, layout: Layout) -> Cells:
    """Return a table of planned cells, at most MOST_CELLS, to sort and filter; with figures unless layout.checks."""
    columns, narrowed = (_CHECKS, _FILTERED_CHECKS) if layout.checks else (COLUMNS, _FILTERED)
    names = by_uuid(report)
    wrong = _wrong(report)
    row: Callable[[str, Line], tuple[Entry, ...]] = partial(_check, wrong) if layout.checks else _row
    found = [
        (
            int(line.quality is Quality.OK and not wrong.get((line.entry.gpu_uuid, line.entry.workload))),
            partial(row, names[line.entry.gpu_uuid], line),
        )
        for line in lines(report)
    ]
    return ranked(Table("All cells", columns, (), more=_MORE), narrowed, found, CONSTANT)


def _wrong(report: Report) -> dict[tuple[str, str], int]:
    """Return (UUID, check) → number of wrong results that a burn-in found in this check of a GPU."""
    gpus = () if report.burn_in is None else report.burn_in.gpus
    return {(gpu.gpu_uuid, one.check): one.mismatches for gpu in gpus for one in gpu.checks}


def _check(wrong: Mapping[tuple[str, str], int], device: str, line: Line) -> tuple[Entry, ...]:
    entry = line.entry
    found = wrong.get((entry.gpu_uuid, entry.workload))  # None if the run is no burn-in
    # In a burn-in, a cell with a result may have found wrong bits. Its status must not read as a verdict.
    status = badge(line.quality)
    if found is not None and line.quality is Quality.OK:
        status = Badge("completed", Tone.BAD if found else Tone.GOOD)
    remarks = [entry.reason] if entry.reason else []
    remarks += [f"{plural(found, 'wrong result')} in the check {entry.workload} on this device"] if found else []
    which = (device, entry.model_name, entry.workload, line.format, status)
    return (*which, str(entry.launches), str(entry.attempts), _remark("; ".join(remarks)))


def _row(device: str, line: Line) -> tuple[Entry, ...]:
    entry, metric = line.entry, line.metric
    size = "" if entry.input_size is None else str(entry.input_size)
    requested = entry.batch_size_requested if metric is None else metric.batch_size_requested
    which = (device, entry.model_name, entry.workload, line.format, line.mode or "", size)
    status = (batch(entry.workload, requested), badge(line.quality))
    if metric is None:  # a scan that has found nothing
        unknown = (NOT_AVAILABLE, "", *(NOT_AVAILABLE,) * (6 + len(HEADED)))
        return (*which, *status, *unknown, str(entry.attempts), _remark(entry.reason))
    half_width = metric.relative_half_width
    return (
        *which,
        *status,
        number(line.value),
        line.figure.unit if line.figure else "",
        number(time_ms(metric)),
        *map(number, percentiles_ms(metric)),
        NOT_AVAILABLE if half_width is None else f"{half_width * 100:.2f}",
        number(per_joule(metric)),
        *(_entry(figure, figure.number(metric)) for figure in HEADED),
        str(len(metric.attempts)),
        _remark(remark(metric, interval=False)),
    )


def listed(report: Report) -> Section | None:
    """Return a table of every planned cell, with its model and configuration in one column; None without cells."""
    if not report.cells:
        return None
    counts = report.summary.cells
    became = f"{counts.ok} ok, {counts.failed} failed, {counts.missing} missing"
    columns = (
        *texts("Cell", "GPU"),
        *numbers("Batch"),
        *texts("Status"),
        *numbers("Rate", "Time", "p50, p95, p99", "Within launches", "Launch spread", "95% interval", "Memory"),
    )
    names = by_uuid(report)
    rows = tuple(_listed(line, names[line.entry.gpu_uuid]) for line in lines(report))
    return Section(
        "cells",
        "All cells",
        (f"{plural(counts.planned, 'cell')} planned, {became}.",),
        tables=(Table("", columns, rows),),
    )


def _listed(line: Line, device: str) -> tuple[str, ...]:
    entry, metric = line.entry, line.metric
    status = line.quality + (f": {entry.reason}" if entry.reason else "")
    size = NOT_AVAILABLE if entry.batch_size is None or entry.workload in WITHOUT_BATCH else str(entry.batch_size)
    if metric is None:
        return (_name(line), device, size, status, *(NOT_AVAILABLE,) * 7)
    figure = line.figure
    return (
        _name(line),
        device,
        size,
        status,
        NOT_AVAILABLE if isinstance(metric, LoadMetrics) or figure is None else unit(line.value, figure.unit),
        unit(time_ms(metric), "ms"),
        _percentiles(metric),
        interval(metric.relative_half_width),
        share(metric.launch_spread_percent),
        interval_percent(metric.launch_interval_percent),
        unit(memory_mb(metric), "MB"),
    )


def _name(line: Line) -> str:
    entry = line.entry
    words = [entry.model_name, entry.workload, line.format]
    if entry.workload not in (Workload.LOAD, Workload.PROBE):
        words.append(f"b{entry.batch_size_requested or 'auto'}")
    words += ["solo"] if line.mode == Mode.SOLO else []
    words += [f"input {entry.input_size}"] if entry.input_size is not None else []
    words += [entry.memory_format] if entry.memory_format == "channels_last" else []
    words += [f"{entry.new_tokens} tokens"] if entry.new_tokens is not None else []
    return " ".join(words)


def _remark(text: str) -> str:
    return text if len(text) <= LONGEST_REMARK else f"{text[:LONGEST_REMARK]}…"


def batch(phase: str, size: int) -> str:
    """Return the batch size as text; "" for a workload (phase) without one."""
    return "" if phase in WITHOUT_BATCH else str(size)


def badge(word: Quality) -> Badge:
    """Return the quality of a result as a badge."""
    return Badge(word, _TONES.get(word, Tone.WARN))


def _percentiles(metric: Measured) -> str:
    known = percentiles_ms(metric)
    return NOT_AVAILABLE if known[0] is None else f"{', '.join(map(number, known))} ms"


def _entry(figure: Figure, value: float | None) -> str:
    return number(value) if value is None or figure.unit == "ms" else f"{value:.0f}"
