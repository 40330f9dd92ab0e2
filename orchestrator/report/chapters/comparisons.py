"""Chapters that compare the run with thresholds, a baseline or a price. Each appears only if it was requested."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.config.naming import plural
from orchestrator.figures import keys
from orchestrator.figures.comparisons import BaselineComparison, Cost, Met, ThresholdResult
from orchestrator.figures.quality import LIMIT_PERCENT
from orchestrator.figures.report import Report
from orchestrator.report.chapters.models import reasons
from orchestrator.report.charts.types import Bars, Kind, Series
from orchestrator.report.device_labels import by_uuid
from orchestrator.report.numbers import NOT_AVAILABLE, difference, number
from orchestrator.report.sections import Badge, Chart, Column, Finding, Section, Table, Tone, numbers, table, texts

LEAST_AXES: Final = 3
"""Smallest number of models for a radar chart, in which each is an axis: fewer would make a line."""
_OVERALL: Final = "overall"
_SLOWEST: Final = 3
_MOST: Final = 40
_MET: Final = {Met.MET: Tone.GOOD, Met.MISSED: Tone.BAD, Met.NOT_MEASURED: Tone.WARN}
_GRAVEST_FIRST: Final = (Met.MISSED, Met.NOT_MEASURED, Met.MET)


class _Names(NamedTuple):
    """Names of cells by cell id, and of devices by UUID. devices: empty if the run has only one."""

    cells: Mapping[str, str]
    devices: Mapping[str, str]


def thresholds(report: Report) -> Section | None:
    """Return a table for each threshold, the missed ones first, with a row for each cell; None without a threshold."""
    if not report.thresholds:
        return None
    called = _names(report)
    by_name: dict[str, list[ThresholdResult]] = {}
    for one in sorted(report.thresholds, key=lambda one: _GRAVEST_FIRST.index(one.status)):
        by_name.setdefault(one.threshold, []).append(one)
    tables = (_threshold(name, results, called) for name, results in by_name.items())
    return Section("thresholds", "Thresholds", tables=tuple(tables))


def _threshold(name: str, results: Sequence[ThresholdResult], called: _Names) -> Table:
    rows = []
    for one in results:
        actual = NOT_AVAILABLE if one.actual is None else f"{number(one.actual)} {one.unit}"
        rows.append((_cell(one, called), one.target, actual, Badge(one.status, _MET[one.status]), one.note))
    columns = (*texts("Cell"), *numbers("Target", "Actual"), *texts("Status"), Column("Why", priority=1, listed=True))
    return Table(name, columns, tuple(rows), most=_MOST)


def _names(report: Report) -> _Names:
    devices = by_uuid(report) if len(report.gpu_info) > 1 else {}
    return _Names(keys.by_cell(report.results, report.probes), devices)


def _cell(row: ThresholdResult | Cost, called: _Names) -> str:
    if row.cell is None or row.gpu_uuid is None:
        return "none"
    if isinstance(row, ThresholdResult) and row.shape is not None:
        name = " ".join(filter(None, (row.model_name, row.precision, row.implementation, row.shape, row.time)))
    else:
        name = called.cells[row.cell]
    return " ".join(filter(None, (called.devices.get(row.gpu_uuid), name)))


def _of_models(found: BaselineComparison) -> dict[str, float]:
    """Return model → change of its throughput from the baseline's, in percent: geometric mean over its cells."""
    changes = found.improvement_percent
    return {name.removesuffix("_throughput"): change for name, change in changes.items() if name != _OVERALL}


def slowest(comparison: BaselineComparison) -> str:
    """Return "slowest: lstm -6.2%, vae -5.9%, vit -5.1%, and 2 more": models LIMIT_PERCENT or more below baseline.

    Return "" without such models.
    """
    slower = sorted((change, name) for name, change in _of_models(comparison).items() if change <= -LIMIT_PERCENT)
    more = f", and {len(slower) - _SLOWEST} more" if len(slower) > _SLOWEST else ""
    named = ", ".join(f"{name} {difference(change)}" for change, name in slower[:_SLOWEST])
    return f"slowest: {named}{more}" if slower else ""


def baseline(report: Report) -> Section | None:
    """Return each model's throughput relative to the baseline's, and the overall score; None without a baseline."""
    found = report.baseline_comparison
    says = "Throughput of each model, where the baseline is 100. More is faster."
    if found is None:
        return None
    against = f"{found.baseline} ({found.baseline_gpu}, {found.baseline_date})"
    percents = _of_models(found)
    ratios = {name: 100 + percent for name, percent in percents.items()}
    series = (Series("this run", tuple(ratios.values())), Series("baseline", (100.0,) * len(ratios)))
    chart = Chart(
        "score",
        f"Score against {against}",
        Kind.RADAR if len(ratios) >= LEAST_AXES else Kind.BARS,
        f"{says} Overall score: {'; '.join(filter(None, (number(found.overall_score), found.note)))}.",
        (Bars("ratio", "", tuple(ratios), series),) if ratios else (),
        "baseline",
    )
    rows = [(name, difference(percent)) for name, percent in percents.items()]
    score = "" if found.overall_score is None else f"Overall score: {number(found.overall_score)}; "
    excluded = (f"{plural(cells, 'cell')} excluded: {why}" for why, cells in found.not_comparable.items())
    notes = (f"{score}{report.summary.score_note}.", *excluded, *filter(None, (found.note,)))
    whole = found.improvement_percent.get(_OVERALL)
    overall = () if whole is None else (("Overall", difference(whole)),)
    lines = tuple(f"{name}: {change}" for name, change in (*rows, *overall))
    return Section(
        "score",
        "Baseline",
        charts=(chart,) if ratios else (),
        tables=(table("Against the baseline", (*texts("Model"), *numbers("Difference")), rows, name="baseline"),),
        findings=(Finding(None, f"Compared to baseline {against}:", lines, listed=True),),
        notes=notes,
    )


def costs(report: Report) -> Section | None:
    """Return the price and energy of a million samples or tokens on each device; None if no price was given."""
    if not report.costs:
        return None
    called = _names(report)
    columns = (*texts("Cell", "A million"), *numbers("Price", "Energy"))
    rows = tuple(_cost_row(cost, called) for cost in report.costs)
    words = " ".join(_priced(report))
    return Section("costs", "Costs", tables=(Table("Costs", columns, rows, words, most=_MOST),))


def _priced(report: Report) -> Iterator[str]:
    yield f"Prices assume {report.costs[0].price_per_hour:g} per hour and device (--price), in your currency."
    without = {cost.cell for cost in report.costs if cost.energy_kwh_per_million is None}
    cells = plural(len({cost.cell for cost in report.costs}), "cell")
    metrics = (metric for result in report.results for _, metric in keys.of_model(result) if metric.cell in without)
    if found := reasons(metrics):
        yield f"Energy is not known for {len(without)} of {cells}: {found}."


def _cost_row(cost: Cost, called: _Names) -> tuple[str, ...]:
    words, price = _cell(cost, called), cost.price_per_million
    return (
        words if f"b{cost.batch_size}" in words.split() else f"{words}, ran at {cost.batch_size}",
        cost.unit,
        f"{price:.2f}" if price >= 1 else f"{price:.3g}",
        NOT_AVAILABLE if cost.energy_kwh_per_million is None else f"{cost.energy_kwh_per_million:.3g} kWh",
    )
