"""The table of all cells: what became of each, and its figures, as text that agrees with the other formats."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from orchestrator.analysis.outcomes import Status
from orchestrator.config.workloads import WITHOUT_BATCH
from orchestrator.figures import keys
from orchestrator.figures.cells import Measured
from orchestrator.figures.keys import CellKey
from orchestrator.figures.report import CellEntry, Report
from orchestrator.figures.table import main_figure
from orchestrator.report.html.page_types import Badge, Cells, Column, Entry, Table, Tone
from orchestrator.report.lines import memory_mb, time_ms
from orchestrator.report.numbers import NOT_AVAILABLE, number
from orchestrator.report.text_gpus import label
from orchestrator.report.text_remarks import remark

MOST_CELLS: Final = 1500
"""Rows that a reader scrolls through, and most pages have room for. What is not well is first where there are more."""
_MORE: Final = "{} more cells are in report.csv and report.json; what is not ok is here first."
LONGEST_REMARK: Final = 300
_TONES: Final = {
    Status.OK: Tone.GOOD,
    Status.DEGRADED: Tone.WARN,
    Status.REFERRED: Tone.QUIET,
    Status.DOES_NOT_FIT: Tone.WARN,
    Status.FAILED: Tone.BAD,
    Status.DROPPED: Tone.QUIET,
    Status.MISSING: Tone.WARN,
}
COLUMNS: Final = (
    *(
        Column("GPU"),
        Column("Model"),
        Column("Phase"),
        Column("Precision"),
        Column("Mode"),
        Column("Input", number=True),
    ),
    *(Column("Batch", number=True), Column("Status"), Column("Figure", number=True), Column("Unit")),
    *(Column("Time ms", number=True), Column("± %", number=True), Column("Memory MB", number=True)),
    *(Column("Power W", number=True), Column("Temp. C", number=True), Column("SM MHz", number=True)),
    *(Column("Attempts", number=True), Column("Remarks")),
)
_FILTERED: Final = (0, 2, 7)
"""Device, phase and status: what a reader narrows the table down to."""
_OF_A_NIGHT: Final = (
    *(Column("GPU"), Column("Model"), Column("Phase"), Column("Precision"), Column("Status")),
    *(Column("Launches", number=True), Column("Attempts", number=True), Column("Remarks")),
)
"""A check has no figures of its own: what it found is told of each GPU. How many launches were planned says nothing:
more rounds are planned than there is time for."""
_FILTERED_OF_A_NIGHT: Final = (0, 2, 4)


def cells(report: Report) -> Cells:
    """Every planned cell, those of models and probes with their figures."""
    night = report.burn_in is not None
    columns, narrowed = (_OF_A_NIGHT, _FILTERED_OF_A_NIGHT) if night else (COLUMNS, _FILTERED)
    found = list(_of_a_night(report) if night else _found(report))
    kept = found
    if len(found) > MOST_CELLS:
        kept = sorted(found, key=lambda one: one[0] is Status.OK)[:MOST_CELLS]
    rows = tuple(row() for _, row in kept)
    ranks = tuple(int(status is Status.OK) for status, _ in kept)
    return Cells(Table("All cells", columns, rows, beyond=len(found) - len(kept), more=_MORE), narrowed, ranks)


def _found(report: Report) -> Iterator[tuple[Status, Callable[[], tuple[Entry, ...]]]]:
    """What became of each cell, and what makes its row: of a run of 100,000 only few are made."""
    names = {device.gpu_uuid: label(device) for device in report.gpu_info}
    told = set()
    for result in report.results:
        for key, metric in keys.of_model(result):
            told.add(metric.cell)
            yield metric.status, partial(_row, names[result.gpu_uuid], key, metric)
    for probe in report.probes:
        told.add(probe.cell)
        yield probe.status, partial(_row, names[probe.gpu_uuid], keys.of_probe(probe), probe)
    for entry in report.cells:
        if entry.cell not in told:
            yield entry.status, partial(_without_figures, names[entry.gpu_uuid], entry)


def _of_a_night(report: Report) -> Iterator[tuple[Status, Callable[[], tuple[Entry, ...]]]]:
    """The same of a burn-in."""
    names = {device.gpu_uuid: label(device) for device in report.gpu_info}
    for entry in report.cells:
        yield entry.status, partial(_check, names[entry.gpu_uuid], entry)


def _check(device: str, entry: CellEntry) -> tuple[Entry, ...]:
    which = (device, entry.model_name, entry.workload, entry.precision, badge(entry.status))
    counts = (entry.launches, entry.attempts)
    return (*which, *map(str, counts), _remark(entry.reason))


def _row(device: str, key: CellKey, metric: Measured) -> tuple[Entry, ...]:
    figure = main_figure(key.phase, key.model_name)
    half_width = metric.relative_half_width
    return (
        *(device, key.model_name, key.phase.value, key.precision, key.mode, _size(key.input_size)),
        batch(key.phase, key.batch_size),
        badge(metric.status),
        number(figure.number(metric)),
        figure.unit,
        number(time_ms(metric)),
        NOT_AVAILABLE if half_width is None else f"{half_width * 100:.2f}",
        number(memory_mb(metric)),
        number(metric.power_draw_w),
        _whole(metric.temperature_c),
        _whole(metric.sm_clock_mhz),
        str(len(metric.attempts)),
        _remark(remark(metric, interval=False)),
    )


def _remark(text: str) -> str:
    return text if len(text) <= LONGEST_REMARK else f"{text[:LONGEST_REMARK]}…"


def _size(size: int | None) -> str:
    return "" if size is None else str(size)


def batch(phase: str, size: int) -> str:
    """The batch size, of phases that have one."""
    return "" if phase in WITHOUT_BATCH else str(size)


def _without_figures(device: str, entry: CellEntry) -> tuple[Entry, ...]:
    """Of a scan that has found nothing."""
    which = (device, entry.model_name, entry.workload, entry.precision, "", _size(entry.input_size))
    size = batch(entry.workload, entry.batch_size_requested)
    unknown = (NOT_AVAILABLE, "", *(NOT_AVAILABLE,) * 6)
    return (*which, size, badge(entry.status), *unknown, str(entry.attempts), _remark(entry.reason))


def badge(status: Status) -> Badge:
    """What became of a cell."""
    return Badge(status.replace("_", " "), _TONES[status])


def _whole(value: float | None) -> str:
    return NOT_AVAILABLE if value is None else f"{value:.0f}"
