"""Charts of models: throughput by precision and by batch size, roofline, parts of an iteration, memory."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from orchestrator.figures.cells import Status
from orchestrator.figures.report import Report
from orchestrator.figures.table import BY_FIELD, MAIN
from orchestrator.report.chapters import model_figures as measured
from orchestrator.report.chapters.probes import probes
from orchestrator.report.charts.roofline import roofline
from orchestrator.report.charts.types import Bars, Box, Curves, Heat, Kind, Line, Series
from orchestrator.report.device_labels import groups, label
from orchestrator.report.numbers import NOT_AVAILABLE, number, unit
from orchestrator.report.remarks import SHORT
from orchestrator.report.sections import Chart, Section, Table, drawn, numbers, table, texts
from protocol.cell import Workload

MOST_MODELS: Final = 60
"""Largest number of models in one chart of bars or boxes."""
MOST_LINES: Final = 8
"""Largest number of curves in one chart: colours do not distinguish more."""
_PHASES: Final = (Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
_OF_SCANS: Final = "smp/s"
"""Unit of the throughput in batch scans. It counts whole sequences, also of generation."""
_MEANS: Final = SHORT | {
    Status.OK: ("", "without a figure"),
    Status.DEGRADED: ("less", "ran at a smaller batch size for lack of memory"),
}
_PARTS: Final = {"forward": "forward_time_ms", "backward": "backward_time_ms", "optimizer": "optimize_step_time_ms"}


Key = TypeVar("Key")
Drawn = tuple[Chart, Table]
"""A chart, and the table with the same data."""


class Rates(NamedTuple):
    """Throughputs that one entry of a chart's menu (`choice`) shows: model → batch size → throughput in `unit`."""

    choice: str
    unit: str
    models: Mapping[str, Mapping[int, float]]


def performance(report: Report) -> Section | None:
    """Return the charts of models that have data, their tables, and a table of the probes; None without any table."""
    caveats = measured.caveats(report)
    rates = [
        Rates(choice, MAIN[phase][0].unit, models)
        for phase in _PHASES
        for choice, models in measured.figures(report, MAIN[phase][0].number, phase).items()
    ]
    scans = [Rates(choice, _OF_SCANS, models) for choice, models in measured.scans(report).items()]
    charts, tables = drawn(
        *(_throughput(report, phase, caveats) for phase in _PHASES),
        roofline(report),
        _curve([*rates, *scans], caveats),
        _iterations(report, caveats),
        _memory(report, caveats),
    )
    tables = (*tables, *_probes(report))
    return Section("performance", "Models", charts=charts, tables=tables) if tables else None


def _throughput(report: Report, phase: Workload, caveats: str) -> Drawn:
    """Return a chart of throughput with a plot for each batch size, and its table. phase: the workload.

    caveats: text to append to the description of the chart.
    """
    figure = MAIN[phase][0]
    found = measured.medians(report, figure.number, (phase,), _size_and_place, lambda one: one.key.precision)
    order = sorted(found)
    plots = []
    for choice in order:
        models = dict(list(found[choice].items())[:MOST_MODELS])
        series = (Series(name, tuple(of.get(name) for of in models.values())) for name in _columns(models))
        plots.append(Bars(_choice_name(choice), figure.unit, tuple(models), tuple(series)))
    precisions = list(_columns({(choice, model): of for choice in order for model, of in found[choice].items()}))
    rows = [
        (_choice_name(choice), model, *(number(of[name]) if name in of else "" for name in precisions))
        for choice in order
        for model, of in found[choice].items()
    ]
    name = f"throughput-{phase}"
    chart = Chart(
        name,
        f"{phase.capitalize()}: throughput by precision",
        Kind.BARS,
        f"Rate of each model at one batch size, in {figure.unit}. {caveats}",
        tuple(plots),
        name,
        "Batch",
        _exclusions({_choice_name(choice): len(found[choice]) for choice in order}),
    )
    header = (*texts("Batch", "Model"), *numbers(*(f"{one} {figure.unit}" for one in precisions)))
    return chart, table(chart.title, header, rows, name=name)


def _size_and_place(measurement: measured.Measurement) -> tuple[int, str]:
    return -(measurement.metric.batch_size or 0), measurement.where


def _choice_name(choice: tuple[int, str]) -> str:
    size, where = choice
    return f"batch {-size}, {where}" if where else f"batch {-size}"


def _columns(rows: Mapping[Key, Mapping[str, float]]) -> dict[str, None]:
    return dict.fromkeys(name for of in rows.values() for name in of)


def _exclusions(counts: Mapping[str, int]) -> str:
    """Return "The first 60 models are drawn. Not drawn: 5 more of batch 8."; "" if a chart draws all models.

    counts: name of a plot → number of models with data for it. A plot draws only the first MOST_MODELS of them.
    """
    more = [f"{count - MOST_MODELS} more of {name}" for name, count in counts.items() if count > MOST_MODELS]
    return f"The first {MOST_MODELS} models are drawn. Not drawn: {'; '.join(more)}." if more else ""


def _iterations(report: Report, caveats: str) -> Drawn:
    parts = {
        part: measured.figures(report, BY_FIELD[field].number, Workload.TRAINING) for part, field in _PARTS.items()
    }
    plots, rows = [], []
    counts: dict[str, int] = {}
    for choice, models in parts["forward"].items():
        for batch in sorted({batch for batches in models.values() for batch in batches}, reverse=True):
            names = tuple(model for model, batches in models.items() if batch in batches)
            columns = {
                part: tuple(found.get(choice, {}).get(name, {}).get(batch) for name in names)
                for part, found in parts.items()
            }
            series = tuple(Series(part, of[:MOST_MODELS]) for part, of in columns.items())
            plots.append(Bars(f"{choice}, batch {batch}", "ms", names[:MOST_MODELS], series))
            counts[plots[-1].name] = len(names)
            rows += [
                (choice, name, str(batch), *(number(of[place]) for of in columns.values()))
                for place, name in enumerate(names)
            ]
    header = (*texts("What", "Model"), *numbers("Batch", *(f"{part.capitalize()} ms" for part in _PARTS)))
    chart = Chart(
        "iterations",
        "Where an iteration of training goes",
        Kind.STACKED,
        f"Milliseconds of one step on the device: forward, backward and optimizer. {caveats}",
        tuple(plots),
        "iterations",
        "What",
        _exclusions(counts),
    )
    return chart, table("Time of a training iteration", header, rows, name="iterations")


def _memory(report: Report, caveats: str) -> Drawn:
    found = measured.figures(report, BY_FIELD["peak_memory_mb"].number, *_PHASES)
    without = _without(report)
    plots, rows = [], []
    counts: dict[str, int] = {}
    for choice in dict.fromkeys((*found, *without)) if found else ():
        ran, other = found.get(choice, {}), without.get(choice, {})
        models = tuple(dict.fromkeys((*ran, *other)))
        counts[choice] = len(models)
        batches = sorted({batch for of in (ran, other) for model in models for batch in of.get(model, ())})
        fields = {
            (model, batch): ran.get(model, {}).get(batch, other.get(model, {}).get(batch))
            for model in models
            for batch in batches
        }
        boxes = tuple(
            _box(batches.index(batch), row, f"{model}, batch {batch}", fields[model, batch])
            for row, model in enumerate(models[:MOST_MODELS])
            for batch in batches
        )
        plots.append(Heat(choice, tuple(f"b{batch}" for batch in batches), models[:MOST_MODELS], boxes))
        rows += [
            (choice, model, str(batch), _MEANS[field][1] if isinstance(field, Status) else number(field))
            for (model, batch), field in fields.items()
            if field is not None
        ]
    header = (*texts("What", "Model"), *numbers("Batch", "Peak MB"))
    chart = Chart(
        "memory",
        "Peak memory by model and batch size",
        Kind.HEAT,
        f"Peak memory of each cell, in MB. {caveats}",
        tuple(plots),
        "memory",
        "What",
        _exclusions(counts),
    )
    return chart, table("Peak memory", header, rows, name="memory")


def _without(report: Report) -> Mapping[str, Mapping[str, Mapping[int, Status]]]:
    without: dict[str, dict[str, dict[int, Status]]] = {}
    for one in measured.measurements(report):
        if one.key.phase in _PHASES and (one.metric.degraded or one.metric.peak_memory_mb is None):
            without.setdefault(one.choice, {}).setdefault(one.model, {})[one.key.batch_size] = one.metric.status
    return without


def _box(column: int, row: int, what: str, figure: float | Status | None) -> Box:
    """Return a field of the heat map of peak memory. what: name of the cell, for the tooltip.

    figure: MB; the status of the cell if its memory is unknown; None if the cell was not planned.
    """
    match figure:
        case Status():
            short, meaning = _MEANS[figure]
            return Box(column, row, None, short, f"{what}: {meaning}")
        case None:
            return Box(column, row, None, "", f"{what}: not planned")
    return Box(column, row, figure, f"{figure:.0f}", f"{what}: {unit(figure, 'MB')}")


def _curve(rates: Sequence[Rates], caveats: str) -> Drawn:
    plots, rows = [], []
    for choice, unit_of, models in rates:
        several = {model: sorted(of.items()) for model, of in models.items() if len(of) > 1}
        lines = [Line(model, tuple((float(batch), value) for batch, value in of)) for model, of in several.items()]
        for begin in range(0, len(lines), MOST_LINES):
            part = tuple(lines[begin : begin + MOST_LINES])
            name = choice if len(lines) <= MOST_LINES else f"{choice}: {part[0].name} to {part[-1].name}"
            plots.append(Curves(name, "batch size", unit_of, part))
        rows += [
            (choice, model, str(batch), number(value), unit_of, _gain(of[0], (batch, value)))
            for model, of in several.items()
            for batch, value in of
        ]
    header = (
        *texts("What", "Model"),
        *numbers("Batch", "Throughput"),
        *texts("Unit"),
        *numbers("Against the smallest"),
    )
    chart = Chart(
        "batches",
        "What a larger batch brings",
        Kind.CURVES,
        "Throughput over the batch size, both axes logarithmic. Where the line is flat, a larger batch gains nothing. "
        f"{caveats}",
        tuple(plots),
        "batches",
        "What",
    )
    return chart, table("Throughput by batch size", header, rows, name="batches")


def _gain(first: tuple[int, float], point: tuple[int, float]) -> str:
    return NOT_AVAILABLE if not first[1] else f"{point[1] / first[1]:.2f} x"


def _probes(report: Report) -> Iterator[Table]:
    for group in groups(report):
        found = [probe for probe in report.probes if probe.gpu_uuid == group.shown.gpu_uuid]
        where = f" ({label(group.shown)}: {group.shown.gpu_name})" if len(report.gpu_info) > 1 else ""
        if found:
            yield probes(found, where, with_mode=len({probe.mode for probe in found}) > 1)
