"""What the text report says of what the run was held against: thresholds, a baseline, a price."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from orchestrator.config.naming import plural
from orchestrator.figures import keys
from orchestrator.figures.comparisons import BaselineComparison, Cost, Met, ThresholdResult
from orchestrator.figures.report import Report
from orchestrator.report import layout
from orchestrator.report.numbers import NOT_AVAILABLE, difference, number
from orchestrator.report.text_gpus import label
from orchestrator.report.text_models import reasons

_MOST: Final = 40


class Names(NamedTuple):
    """What cells are called, by their id, and devices, by UUID; these only where there are several."""

    cells: Mapping[str, str]
    devices: Mapping[str, str]


def held_against(report: Report) -> Iterator[str]:
    """The chapters, each only where it was asked for."""
    yield from _thresholds(report)
    yield from _baseline(report)
    yield from _costs(report)


def _thresholds(report: Report) -> Iterator[str]:
    """A table for each, the gravest first."""
    if not report.thresholds:
        return
    yield from layout.chapter("Thresholds")
    by_name: dict[str, list[ThresholdResult]] = {}
    for one in report.thresholds:
        by_name.setdefault(one.threshold, []).append(one)
    called = names(report)
    for name, results in sorted(by_name.items(), key=lambda item: min(map(gravity, item[1]))):
        yield from layout.wrap(name)
        shown = sorted(results, key=gravity)
        rows = [(cell(one, called), one.target, actual(one), str(one.status)) for one in shown[:_MOST]]
        yield from layout.table(("Cell", "Target", "Actual", "Status"), rows, "  ")
        if len(shown) > _MOST:
            yield f"  ... and {len(shown) - _MOST} more in the JSON report"
        notes = dict.fromkeys(f"{one.status}: {one.note}" for one in shown if one.note)
        yield from layout.bullets(notes, 5)
        yield ""


def gravity(one: ThresholdResult) -> int:
    """For sorting, the gravest first."""
    return (Met.MISSED, Met.NOT_MEASURED, Met.MET).index(one.status)


def names(report: Report) -> Names:
    """Of this report."""
    devices = {gpu.gpu_uuid: label(gpu) for gpu in report.gpu_info} if len(report.gpu_info) > 1 else {}
    return Names(keys.by_cell(report.results, report.probes), devices)


def cell(one: ThresholdResult | Cost, called: Names) -> str:
    """What it was held against, or costs so much."""
    if one.cell is None or one.gpu_uuid is None:
        return "none"
    return " ".join(filter(None, (called.devices.get(one.gpu_uuid), called.cells[one.cell])))


def actual(one: ThresholdResult) -> str:
    """The figure, in the unit of the target."""
    return NOT_AVAILABLE if one.actual is None else f"{number(one.actual)} {one.unit}"


def _baseline(report: Report) -> Iterator[str]:
    found = report.baseline_comparison
    if found is None:
        return
    yield from layout.chapter("Baseline")
    yield from layout.wrap(f"Compared to baseline {found.baseline} ({found.baseline_gpu}, {found.baseline_date}):")
    for name, percent in found.improvement_percent.items():
        words = "Overall" if name == "overall" else name.removesuffix("_throughput")
        yield from layout.wrap(f"- {words}: {difference(percent)}", "  ", "  ")
    score = "" if found.overall_score is None else f"Overall score: {number(found.overall_score)}; "
    yield from layout.wrap(f"{score}{report.summary.score_note}.")
    yield from layout.bullets([*left_out(found), *([found.note] if found.note else [])], 10)
    yield ""


def left_out(found: BaselineComparison) -> list[str]:
    """How many cells are not held against the baseline, and why: one for each reason."""
    return [f"{plural(cells, 'cell')} left out: {why}" for why, cells in found.not_comparable.items()]


def _costs(report: Report) -> Iterator[str]:
    if not report.costs:
        return
    yield from layout.chapter("Costs")
    called = names(report)
    rows = [cost_row(one, called) for one in report.costs[:_MOST]]
    yield from layout.table(("Cell", "Million", "Price", "Energy"), rows)
    if len(report.costs) > _MOST:
        yield f"  ... and {len(report.costs) - _MOST} more in the JSON report"
    for words in priced(report):
        yield from layout.wrap(words)
    yield ""


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
