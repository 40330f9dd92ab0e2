"""Charts of models: throughput, parts of an iteration, memory, and throughput by batch size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.figures.cells import GenerationMetrics, Measured, PhaseMetrics, Status
from orchestrator.figures.report import Report
from orchestrator.report.chapters import model_figures as measured
from orchestrator.report.chapters.probes import probes
from orchestrator.report.charts import Bars, Box, Curves, Heat, Kind, Line, Series
from orchestrator.report.device_labels import groups, label
from orchestrator.report.numbers import NOT_AVAILABLE, number, unit
from orchestrator.report.remarks import SHORT
from orchestrator.report.sections import Chart, Section, Table, numbers, table, texts
from protocol.cell import Workload

MOST_MODELS: Final = 60
"""In one chart of bars or boxes."""
MOST_LINES: Final = 8
"""Curves in one chart: more cannot be told apart by colour."""
_UNITS: Final = {Workload.INFERENCE: "smp/s", Workload.TRAINING: "smp/s", Workload.GENERATION: "tok/s"}
_OF_SCANS: Final = "smp/s"
"""A scan counts whole sequences, also of generation."""
_MEANS: Final = SHORT | {
    Status.OK: ("", "without a figure"),
    Status.DEGRADED: ("less", "ran at a smaller batch size for want of memory"),
}
_PARTS: Final = {"forward": "forward_time_ms", "backward": "backward_time_ms", "optimizer": "optimize_step_time_ms"}


Drawn = tuple[Chart, Table]
"""A chart, and the table with the same data."""


class Rates(NamedTuple):
    """Throughputs of models under one choice: model → batch size → value."""

    choice: str
    unit: str
    models: Mapping[str, Mapping[int, float]]


def performance(report: Report) -> Section:
    """All charts of models, including empty ones, which say what is missing."""
    over = measured.over(report)
    rates = [
        Rates(choice, unit_of, models)
        for phase, unit_of in _UNITS.items()
        for choice, models in measured.figures(report, throughput, phase).items()
    ]
    scans = [Rates(choice, _OF_SCANS, models) for choice, models in measured.scans(report).items()]
    drawn = (
        _throughput(rates, over),
        _curve([*rates, *scans], over),
        _memory(report, over),
        _iterations(report, over),
    )
    tables = (*(table for _, table in drawn), *_probes(report))
    return Section("performance", "Model performance", charts=tuple(chart for chart, _ in drawn), tables=tables)


def throughput(metric: Measured) -> float | None:
    """Samples/s, of generation tokens/s."""
    if isinstance(metric, GenerationMetrics):
        return metric.tokens_per_second
    return metric.throughput_samples_per_sec if isinstance(metric, PhaseMetrics) else None


def _throughput(rates: Sequence[Rates], over: str) -> Drawn:
    drawn = [Rates(choice, unit_of, dict(list(models.items())[:MOST_MODELS])) for choice, unit_of, models in rates]
    plots = tuple(Bars(choice, unit_of, tuple(models), tuple(_by_batch(models))) for choice, unit_of, models in drawn)
    rows = [
        (choice, model, str(batch), number(value), unit_of)
        for choice, unit_of, models in rates
        for model, batches in models.items()
        for batch, value in batches.items()
    ]
    header = (*texts("What", "Model"), *numbers("Batch", "Throughput"), *texts("Unit"))
    chart = Chart(
        "throughput",
        "Throughput",
        Kind.BARS,
        f"Samples, or tokens, that each model gets through in a second, by batch size. {over}",
        plots,
        "throughput",
        "" if plots else "No model has a throughput in this run.",
        "What",
        _exclusions({one.choice: len(one.models) for one in rates}),
    )
    return chart, table("Throughput", header, rows, name="throughput")


def _exclusions(counts: Mapping[str, int]) -> str:
    """What a chart does not draw. counts: models by choice."""
    more = [f"{count - MOST_MODELS} more of {name}" for name, count in counts.items() if count > MOST_MODELS]
    return f"The first {MOST_MODELS} models are drawn. Not drawn: {'; '.join(more)}." if more else ""


def _by_batch(models: Mapping[str, Mapping[int, float]]) -> Iterator[Series]:
    for batch in sorted({batch for batches in models.values() for batch in batches}):
        yield Series(f"batch {batch}", tuple(batches.get(batch) for batches in models.values()))


def _iterations(report: Report, over: str) -> Drawn:
    parts = {part: measured.figures(report, _reader(field), Workload.TRAINING) for part, field in _PARTS.items()}
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
        f"Milliseconds of one step on the device: forward, backward and optimizer. {over}",
        tuple(plots),
        "iterations",
        "" if plots else "Nothing was trained in this run (--phases training).",
        "What",
        _exclusions(counts),
    )
    return chart, table("Time of a training iteration", header, rows, name="iterations")


def _reader(field: str) -> Callable[[Measured], float | None]:
    return lambda metric: getattr(metric, field, None)


def _memory(report: Report, over: str) -> Drawn:
    found = measured.figures(report, lambda metric: metric.peak_memory_mb, *_UNITS)
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
        f"The most memory that each cell took at once, in MB. {over}",
        tuple(plots),
        "memory",
        "" if plots else "No memory was measured in this run.",
        "What",
        _exclusions(counts),
    )
    return chart, table("Peak memory", header, rows, name="memory")


def _without(report: Report) -> Mapping[str, Mapping[str, Mapping[int, Status]]]:
    """Status of each size without a figure of its own, by choice and model."""
    without: dict[str, dict[str, dict[int, Status]]] = {}
    for one in measured.found(report):
        if one.key.phase in _UNITS and (one.metric.degraded or one.metric.peak_memory_mb is None):
            without.setdefault(one.choice, {}).setdefault(one.model, {})[one.key.batch_size] = one.metric.status
    return without


def _box(column: int, row: int, what: str, found: float | Status | None) -> Box:
    """found: the figure, or the status of a cell without one; None if none was planned."""
    match found:
        case Status():
            short, meaning = _MEANS[found]
            return Box(column, row, None, short, f"{what}: {meaning}")
        case None:
            return Box(column, row, None, "", f"{what}: not planned")
    return Box(column, row, found, f"{found:.0f}", f"{what}: {unit(found, 'MB')}")


def _curve(rates: Sequence[Rates], over: str) -> Drawn:
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
        f"Throughput over the batch size, both axes logarithmic: a flat line gains nothing. {over}",
        tuple(plots),
        "batches",
        "" if plots else "Each model was measured at one batch size alone: -b 1,8,32 or -b auto draws a curve.",
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
