"""Power, energy and processor time of the host, for the cells in which they were read."""

from typing import Final

from orchestrator.figures.report import Report
from orchestrator.figures.table import BY_FIELD
from orchestrator.report.device_labels import by_uuid
from orchestrator.report.lines import Line, lines
from orchestrator.report.numbers import NOT_AVAILABLE, number
from orchestrator.report.sections import Section, Table, numbers, texts

_FIGURES: Final = {
    "power_draw_w": "Power W",
    "gpu_utilization_percent": "GPU %",
    "samples_per_sec_per_watt": "Samples a joule",
    "energy_per_sample_j": "Joules a sample",
    "energy_per_token_j": "Joules a token",
    "host_cpu_percent": "Host CPU %",
    "host_memory_mb": "Host MB",
}
"""Figure (field in figures/table.py) → title of its column."""
_SUMMARY: Final = "Power and energy of the GPU at work, and processor time and memory of the host:"


def power(report: Report) -> Section | None:
    """Return a table of cells with power, energy and CPU use of the host; None if no cell has a power or CPU reading.

    It has the cells with a power reading. If none has one, it has the cells with a reading of the host's CPU use.
    """
    rows = [(line, {field: _figure(line, field) for field in _FIGURES}) for line in lines(report)]
    read = next((found for field in ("power_draw_w", "host_cpu_percent") if (found := _with(field, rows))), None)
    if read is None:
        return None
    names = by_uuid(report)
    shown = {field: title for field, title in _FIGURES.items() if _with(field, read)}
    heading = (
        *texts("Model", "Phase", "Precision"),
        *numbers("Input", "Batch"),
        *texts("GPU"),
        *numbers(*shown.values()),
    )
    entries = tuple(
        (*_cell(line), names[line.entry.gpu_uuid], *(_number(values[field]) for field in shown))
        for line, values in read
    )
    return Section("power", "Power and energy", (_SUMMARY,), tables=(Table("", heading, entries, name="power"),))


_Row = tuple[Line, dict[str, float | None]]


def _with(field: str, rows: list[_Row]) -> list[_Row]:
    return [(line, values) for line, values in rows if values[field] is not None]


def _figure(line: Line, field: str) -> float | None:
    return None if line.metric is None else BY_FIELD[field].number(line.metric)


def _cell(line: Line) -> tuple[str, ...]:
    entry = line.entry
    phase = " ".join(filter(None, (entry.workload, line.mode)))
    size = "" if entry.input_size is None else str(entry.input_size)
    return entry.model_name, phase, entry.precision, size, str(entry.batch_size)


def _number(value: float | None) -> str:
    return NOT_AVAILABLE if value is None else number(value) if value >= 1 else f"{value:.3g}"
