"""What the run was compared with: thresholds, a baseline, a price. Each chapter only where it was requested."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.config.naming import plural
from orchestrator.figures import keys
from orchestrator.figures.comparisons import BaselineComparison, Cost, Met, ThresholdResult
from orchestrator.figures.report import Report
from orchestrator.report.chapters.models import reasons
from orchestrator.report.charts import Bars, Kind, Series
from orchestrator.report.device_labels import label
from orchestrator.report.numbers import NOT_AVAILABLE, difference, number
from orchestrator.report.sections import (
    Badge,
    Chart,
    Column,
    Finding,
    Section,
    Table,
    Tone,
    numbers,
    table,
    texts,
)

LEAST_AXES: Final = 3
"""Of a radar chart: with fewer models it is a line."""
_MOST: Final = 40
_MET: Final = {Met.MET: Tone.GOOD, Met.MISSED: Tone.BAD, Met.NOT_MEASURED: Tone.WARN}
_GRAVEST_FIRST: Final = (Met.MISSED, Met.NOT_MEASURED, Met.MET)


class Names(NamedTuple):
    """What cells are called, by their id, and devices, by UUID; these only where there are several."""

    cells: Mapping[str, str]
    devices: Mapping[str, str]


def thresholds(report: Report) -> Section | None:
    """A table for each threshold, the gravest first, with a row for each cell that it was applied to."""
    if not report.thresholds:
        return None
    called = names(report)
    by_name: dict[str, list[ThresholdResult]] = {}
    for one in sorted(report.thresholds, key=lambda one: _GRAVEST_FIRST.index(one.status)):
        by_name.setdefault(one.threshold, []).append(one)
    tables = (_threshold(name, results, called) for name, results in by_name.items())
    return Section("thresholds", "Thresholds", tables=tuple(tables))


def _threshold(name: str, results: Sequence[ThresholdResult], called: Names) -> Table:
    rows = tuple(
        (cell(one, called), one.target, _actual(one), Badge(one.status, _MET[one.status]), one.note) for one in results
    )
    columns = (*texts("Cell"), *numbers("Target", "Actual"), *texts("Status"), Column("Why", priority=1, listed=True))
    return Table(name, columns, rows, most=_MOST)


def names(report: Report) -> Names:
    """Of this report."""
    devices = {gpu.gpu_uuid: label(gpu) for gpu in report.gpu_info} if len(report.gpu_info) > 1 else {}
    return Names(keys.by_cell(report.results, report.probes), devices)


def cell(one: ThresholdResult | Cost, called: Names) -> str:
    """What it was held against, or costs so much."""
    if one.cell is None or one.gpu_uuid is None:
        return "none"
    return " ".join(filter(None, (called.devices.get(one.gpu_uuid), called.cells[one.cell])))


def _actual(one: ThresholdResult) -> str:
    """The figure, in the unit of the target."""
    return NOT_AVAILABLE if one.actual is None else f"{number(one.actual)} {one.unit}"


def baseline(report: Report) -> Section:
    """The run against its baseline, model by model; a chart that says what to do where there is none."""
    found = report.baseline_comparison
    says = "Throughput of each model, where the baseline has 100: further out is faster."
    if found is None:
        empty = Chart("score", "Score against a baseline", Kind.RADAR, says, empty=f"{report.summary.score_note}.")
        return Section("score", "Baseline", charts=(empty,))
    against = f"{found.baseline} ({found.baseline_gpu}, {found.baseline_date})"
    percents = {
        "Overall" if name == "overall" else name.removesuffix("_throughput"): percent
        for name, percent in found.improvement_percent.items()
    }
    ratios = {name: 100 + percent for name, percent in percents.items() if name != "Overall"}
    series = (Series("this run", tuple(ratios.values())), Series("baseline", (100.0,) * len(ratios)))
    chart = Chart(
        "score",
        f"Score against {against}",
        Kind.RADAR if len(ratios) >= LEAST_AXES else Kind.BARS,
        f"{says} Overall score: {'; '.join(filter(None, (number(found.overall_score), found.note)))}.",
        (Bars("ratio", "", tuple(ratios), series),) if ratios else (),
        "baseline",
        "" if ratios else f"{report.summary.score_note}.",
    )
    rows = [(name, difference(percents[name])) for name in ratios]
    score = "" if found.overall_score is None else f"Overall score: {number(found.overall_score)}; "
    notes = (f"{score}{report.summary.score_note}.", *_excluded(found), *filter(None, (found.note,)))
    told = tuple(f"{name}: {difference(percent)}" for name, percent in percents.items())
    return Section(
        "score",
        "Baseline",
        charts=(chart,),
        tables=(table("Against the baseline", (*texts("Model"), *numbers("Difference")), rows, name="baseline"),),
        findings=(Finding(None, f"Compared to baseline {against}:", told, listed=True),),
        notes=notes,
    )


def _excluded(found: BaselineComparison) -> Iterator[str]:
    """How many cells are not compared with the baseline, and why: one for each reason."""
    return (f"{plural(cells, 'cell')} left out: {why}" for why, cells in found.not_comparable.items())


def costs(report: Report) -> Section | None:
    """What a million samples, or tokens, cost on each device, and the energy they take."""
    if not report.costs:
        return None
    called = names(report)
    columns = (*texts("Cell", "A million"), *numbers("Price", "Energy"))
    rows = tuple(cost_row(one, called) for one in report.costs)
    words = " ".join(priced(report))
    return Section("costs", "Costs", tables=(Table("Costs", columns, rows, words, most=_MOST),))


def priced(report: Report) -> Iterator[str]:
    """What the costs are reckoned by; and why the energy of some is not known."""
    yield f"At {report.costs[0].price_per_hour:g} an hour of each device, in the currency of that price."
    without = {one.cell for one in report.costs if one.energy_kwh_per_million is None}
    metrics = (metric for result in report.results for _, metric in keys.of_model(result) if metric.cell in without)
    if found := reasons(metrics):
        yield f"Energy is not known of each cell: {found}."


def cost_row(one: Cost, called: Names) -> tuple[str, ...]:
    """Cell, million of what, price and energy; where another batch size ran than was asked for, that too."""
    words = cell(one, called)
    return (
        words if f"b{one.batch_size}" in words.split() else f"{words}, ran at {one.batch_size}",
        one.unit,
        _price(one.price_per_million),
        NOT_AVAILABLE if one.energy_kwh_per_million is None else f"{one.energy_kwh_per_million:.3g} kWh",
    )


def _price(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"
