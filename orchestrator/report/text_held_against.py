"""What the text report says of what the run was held against: thresholds, a baseline, a price."""

from collections.abc import Iterator
from typing import Final

from orchestrator.configuration.naming import counted
from orchestrator.report import layout
from orchestrator.report.comparisons import Cost, Met, ThresholdResult
from orchestrator.report.model import Report
from orchestrator.report.numbers import NOT_AVAILABLE, number

_MOST: Final = 40


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
    several = len(report.gpu_info) > 1
    for name, results in sorted(by_name.items(), key=lambda item: min(map(gravity, item[1]))):
        yield from layout.wrap(name)
        shown = sorted(results, key=gravity)
        rows = [(cell(one, several=several), one.target, actual(one), str(one.status)) for one in shown[:_MOST]]
        yield from layout.table(("Cell", "Target", "Actual", "Status"), rows, "  ")
        if len(shown) > _MOST:
            yield f"  ... and {len(shown) - _MOST} more in the JSON report"
        notes = dict.fromkeys(f"{one.status}: {one.note}" for one in shown if one.note)
        yield from layout.bullets(notes, 5)
        yield ""


def gravity(one: ThresholdResult) -> int:
    """For sorting, the gravest first."""
    return (Met.MISSED, Met.NOT_MEASURED, Met.MET).index(one.status)


def cell(one: ThresholdResult, *, several: bool) -> str:
    """What it was held against. several: whether the run has more than one device."""
    if one.cell is None:
        return "none"
    device = f"GPU {one.gpu_id} " if several else ""
    return f"{device}{one.model_name} {one.phase} {one.precision} b{one.batch_size}"


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
        yield from layout.wrap(f"- {words}: {percent:+.1f}%", "  ", "  ")
    yield from layout.wrap(f"{report.summary.score_note}.")
    left_out = [f"{counted(cells, 'cell')} left out: {why}" for why, cells in found.not_comparable.items()]
    yield from layout.bullets([*left_out, *([found.note] if found.note else [])], 10)
    yield ""


def _costs(report: Report) -> Iterator[str]:
    if not report.costs:
        return
    yield from layout.chapter("Costs")
    several = len(report.gpu_info) > 1
    rows = [cost_row(one, several=several) for one in report.costs[:_MOST]]
    yield from layout.table(("Cell", "Million", "Price", "Energy"), rows)
    if len(report.costs) > _MOST:
        yield f"  ... and {len(report.costs) - _MOST} more in the JSON report"
    yield from layout.wrap(
        f"At {report.costs[0].price_per_hour:g} an hour of each device, in the currency of that price."
    )
    yield ""


def cost_row(one: Cost, *, several: bool) -> tuple[str, ...]:
    """Cell, million of what, price and energy. several: whether the run has more than one device."""
    device = f" GPU {one.gpu_id}" if several else ""
    return (
        f"{one.model_name} {one.phase} {one.precision} b{one.batch_size}{device}",
        one.unit,
        _price(one.price_per_million),
        NOT_AVAILABLE if one.energy_kwh_per_million is None else f"{one.energy_kwh_per_million:.3g} kWh",
    )


def _price(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"
