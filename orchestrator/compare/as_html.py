"""Comparisons as one HTML file, with the verdict and exit code first. A cell is a model in one configuration."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from orchestrator.compare import wording
from orchestrator.compare.cell_facts import shown
from orchestrator.compare.chapters import TONES, Ended, slower_cells, worst
from orchestrator.compare.comparison import ComparedCell, Comparison, Mean
from orchestrator.compare.run_figures import BESIDE
from orchestrator.compare.wording import LEGEND
from orchestrator.config.naming import plural
from orchestrator.figures.table import UNITS
from orchestrator.report.chapters.cells import batch
from orchestrator.report.charts.types import Kind, Ratio, Ratios
from orchestrator.report.html.render import Page
from orchestrator.report.html.size_limit import fitted
from orchestrator.report.numbers import number
from orchestrator.report.sections import (
    Badge,
    Card,
    Cells,
    Chart,
    Column,
    Entry,
    Finding,
    Section,
    Table,
    numbers,
    ranked,
    table,
    texts,
)
from orchestrator.stats.two_runs import ChangeVerdict

MOST_DRAWN: Final = 60
"""Most cells in a chart, which shows the gravest first."""
MOST_NAMES: Final = 30
"""Most names of cells in a list, such as that of the cells without a verdict; " and 3 more" stands for the others."""
TOGETHER: Final = "all together"
_ELSEWHERE: Final = "--format json"
_CONSTANT: Final = ("Second run", "GPU", "Mode")
_FILTERED: Final = ("Second run", "GPU", "Phase", "Implementation", "Shape", "Time", "Mode", "Verdict")


def to_html(comparisons: Sequence[Comparison], end: Ended) -> bytes:
    """Render one or several comparisons as one HTML file, in UTF-8. end: verdict and exit code."""
    return fitted(page(comparisons, end))


def page(comparisons: Sequence[Comparison], end: Ended) -> Page:
    """Return the page of one or several comparisons, before it is rendered. end: verdict and exit code."""
    first = comparisons[0]
    several = len(comparisons) > 1
    counts = wording.headline(comparisons)
    heading = f"{len(comparisons)} runs against {first.before}" if several else counts
    changed = f"Changed between the runs: {first.title}" if first.changes and not several else ""
    found = tuple(replace(one, lines=(changed, *one.lines)) for one in _worst(comparisons))
    what = counts if several else changed or f"{first.before} -> {first.after}"
    return Page(
        title=f"{end.badge}: {heading}",
        heading=heading,
        verdict=end.badge,
        meaning=". ".join(filter(None, ("" if found and changed else what, end.meaning, end.step))),
        reasons=tuple(_unjudged(comparisons)),
        notices=tuple(dict.fromkeys(words for one in comparisons for words in one.notes)),
        elsewhere=_ELSEWHERE,
        facts_title="Runs and margins",
        facts=tuple(_facts(comparisons)),
        cards=tuple(_card_of_run(one) for one in comparisons) if several else tuple(_cards(first)),
        findings=found,
        sections=tuple(filter(None, (_speed(comparisons), _changes(comparisons), _remarks(comparisons)))),
        cells=_cells(comparisons),
        file_name="gpubench-comparison.csv",
        footer=f"Made by gpubench from the runs named here. Every value is in {_ELSEWHERE}.",
    )


def _worst(comparisons: Sequence[Comparison]) -> Iterator[Finding]:
    if found := worst(comparisons):
        yield replace(found, lines=(*slower_cells(comparisons), *found.lines))


def _unjudged(comparisons: Sequence[Comparison]) -> Iterator[str]:
    several = len(comparisons) > 1
    for one in comparisons:
        yield from (f"{one.after}: {words}" if several else words for words in wording.unjudged(one))


def _runs(comparison: Comparison) -> str:
    return f"{comparison.label_before} -> {comparison.label_after}"


def _facts(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    yield "First run", comparisons[0].label_before
    yield from (("Second run", comparison.label_after) for comparison in comparisons)
    margins = sorted({cell.margin_percent for one in comparisons for cell in one.cells if cell.margin_percent})
    if margins:
        yield "Margin, by cell", ", ".join(f"{margin:.3g}%" for margin in margins)


def _cards(comparison: Comparison) -> Iterator[Card]:
    for verdict in wording.GRAVEST_FIRST:
        if count := comparison.counts.get(verdict, 0):
            yield Card(verdict, str(count), f"of {plural(len(comparison.cells), 'cell')}", TONES[verdict])
    yield from (Card(f"Geometric mean, {mean.phase}", *_mean(mean)) for mean in comparison.means)


def _card_of_run(comparison: Comparison) -> Card:
    figure = f"{sum(comparison.counts.values()):,}"
    return Card(
        f"Cells, {comparison.after}",
        figure,
        "; ".join(filter(None, (wording.headline([comparison]), wording.means(comparison)))),
    )


def _mean(mean: Mean) -> tuple[str, str]:
    between = f"{wording.interval(mean)} (95%), " if wording.interval(mean) else ""
    verdict = f"{mean.verdict} as a whole; " if mean.verdict else ""
    return wording.change(mean), f"{verdict}{between}over {plural(mean.cells, 'cell')}; above 0% is faster"


def _changes(comparisons: Sequence[Comparison]) -> Section | None:
    tables = [
        table(
            comparison.title if len(comparisons) == 1 else f"{_runs(comparison)}: {comparison.title}",
            texts("Fact", "First", "Second"),
            [
                (change.name, shown(change.name, change.before), shown(change.name, change.after))
                for change in comparison.changes
            ],
            elsewhere=_ELSEWHERE,
        )
        for comparison in comparisons
        if comparison.changes
    ]
    return Section("changes", "What changed in the stack", tables=tuple(tables)) if tables else None


def _speed(comparisons: Sequence[Comparison]) -> Section:
    compared = [(comparison, _with_ratio(comparison)) for comparison in comparisons]
    plots = tuple(Ratios(_runs(one), tuple(_drawn(one, cells))) for one, cells in compared if cells)
    rows = [row for one, cells in compared for row in _chart_rows(one, cells, several=len(comparisons) > 1)]
    header = (*texts("Cell"), *numbers("Change", "95% interval", "Margin %"), *texts("Verdict"))
    cut = any(len(cells) > MOST_DRAWN for _, cells in compared)
    note = f"The chart has the first {MOST_DRAWN} cells of each pair of runs." if cut else ""
    chart = Chart(
        "ratios",
        "Speed of the second run over the first",
        Kind.RATIOS,
        "Change of each cell with its 95 % interval. A change inside the band (the margin) counts as none. The most "
        "important cells come first. An interval without an end mark continues beyond the chart.",
        plots,
        "ratios",
        "Runs" if len(comparisons) > 1 else "",
    )
    same = table("Speed of the second run over the first", header, rows, note, elsewhere=_ELSEWHERE, name="ratios")
    if not plots:
        return Section("speed", "Speed of each cell", (f"{wording.NOTHING[:1].upper()}{wording.NOTHING[1:]}.",))
    return Section("speed", "Speed of each cell", (LEGEND,), charts=(chart,), tables=(same,), wide=True)


def _with_ratio(comparison: Comparison) -> list[tuple[ComparedCell, float]]:
    """Return (cell, ratio) of each cell whose ratio has a known interval, the gravest verdict first."""
    return [
        (cell, cell.ratio)
        for cell in wording.ordered(comparison.cells)
        if cell.ratio is not None and cell.low is not None
    ]


def _drawn(comparison: Comparison, cells: Sequence[tuple[ComparedCell, float]]) -> Iterator[Ratio]:
    name = wording.naming(comparison)
    for mean in comparison.means:
        name_of = f"geometric mean, {mean.phase}"
        yield Ratio(name_of, TOGETHER, "mean", mean.ratio, mean.low, mean.high, None, None, (wording.mean(mean),))
    for cell, ratio in cells[:MOST_DRAWN]:
        # The same width both ways on the logarithm, as the test has it.
        share = None if cell.margin_percent is None else 1 - cell.margin_percent / 100
        interval = f"95% interval {wording.interval(cell)}"
        says = (cell.verdict, wording.change(cell), interval, wording.margin(cell), wording.remark(cell))
        yield Ratio(
            name(cell),
            cell.verdict,
            TONES[cell.verdict],
            ratio,
            cell.low,
            cell.high,
            share,
            None if share is None else 1 / share,
            tuple(filter(None, says)),
        )


def _chart_rows(
    comparison: Comparison, cells: Sequence[tuple[ComparedCell, float]], *, several: bool
) -> Iterator[tuple[Entry, ...]]:
    name, of = wording.naming(comparison), f", {comparison.after}" if several else ""
    for mean in comparison.means:
        verdict = "" if mean.verdict is None else _badge(mean.verdict)
        yield f"geometric mean, {mean.phase}{of}", wording.change(mean), wording.interval(mean), "", verdict
    for cell, _ in cells:
        margin = "" if cell.margin_percent is None else number(cell.margin_percent)
        yield f"{name(cell)}{of}", wording.change(cell), wording.interval(cell), margin, _badge(cell.verdict)


def _remarks(comparisons: Sequence[Comparison]) -> Section | None:
    several = len(comparisons) > 1
    rows: list[tuple[Entry, ...]] = [
        (*((_runs(comparison),) if several else ()), _badge(verdict), words, str(len(names)), _names(names))
        for comparison in comparisons
        for verdict in wording.GRAVEST_FIRST
        for words, names in wording.grouped(comparison, verdict).items()
    ]
    apart = tuple(
        f"{words}."
        for one in comparisons
        for words in (*wording.unjudged(one, MOST_NAMES), *wording.new(one, MOST_NAMES))
    )
    header = (*texts(*(("Runs",) if several else ()), "Verdict", "Fact"), *numbers("Cells"), *texts("Which"))
    tables = (table("Remarks on verdicts", header, rows, elsewhere=_ELSEWHERE),) if rows else ()
    return Section("apart", "Not judged, and remarks", apart, tables=tables) if rows or apart else None


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _badge(verdict: ChangeVerdict) -> Badge:
    return Badge(verdict, TONES[verdict])


def _cells(comparisons: Sequence[Comparison]) -> Cells:
    fields = _FIELDS if len(comparisons) > 1 else _FIELDS[1:]
    found = [
        (wording.GRAVEST_FIRST.index(cell.verdict), partial(_row, fields, comparison, cell))
        for comparison in comparisons
        for cell in wording.ordered(comparison.cells)
    ]
    columns = tuple(column for column, _ in fields)
    narrowed = tuple(place for place, column in enumerate(columns) if column.title in _FILTERED)
    more = f"{{}} more cells are in {_ELSEWHERE}. The most important cells come first here."
    return ranked(Table("All cells", columns, (), more=more), narrowed, found, _CONSTANT)


def _row(fields: Sequence["_Field"], comparison: Comparison, cell: ComparedCell) -> tuple[Entry, ...]:
    return tuple(say(comparison, cell) for _, say in fields)


def _gpu(_one: Comparison, cell: ComparedCell) -> str:
    return cell.gpu_before if cell.gpu_before == cell.gpu_after else f"{cell.gpu_before} -> {cell.gpu_after}"


def _percent(ratio: float | None) -> str:
    """Format a ratio of rates as change in percent, for spreadsheets: 0.95 → "-5.0"; None → ""."""
    return "" if ratio is None else f"{wording.percent(ratio):+z.1f}"


def _both(name: str, _one: Comparison, cell: ComparedCell) -> str:
    """Return the figure `name` of both runs as "1.2 -> 1.3"; "" if the cell does not have this figure.

    _one: unused. The function of each column takes a comparison and a cell.
    """
    if name not in cell.figures:
        return ""
    before, after = cell.figures[name]
    return f"{number(before)} -> {number(after)}"


_Field = tuple[Column, Callable[[Comparison, ComparedCell], Entry]]
_FIELDS: Final[tuple[_Field, ...]] = (
    (Column("Second run"), lambda one, _: one.after),
    (Column("GPU"), _gpu),
    (Column("Model"), lambda _, cell: cell.model_name),
    (Column("Phase"), lambda _, cell: cell.phase),
    (Column("Precision"), lambda _, cell: cell.precision),
    (Column("Implementation"), lambda _, cell: cell.implementation),
    (Column("Shape"), lambda _, cell: cell.shape),
    (Column("Time"), lambda _, cell: cell.time),
    (Column("Mode"), lambda _, cell: cell.mode),
    (Column("Input", number=True), lambda _, cell: "" if cell.input_size is None else str(cell.input_size)),
    (Column("Batch", number=True), lambda _, cell: batch(cell.phase, cell.batch_size)),
    (Column("Verdict"), lambda _, cell: _badge(cell.verdict)),
    (Column("Change %", number=True), lambda _, cell: _percent(cell.ratio)),
    (Column("95% from", number=True), lambda _, cell: _percent(cell.low)),
    (Column("95% to", number=True), lambda _, cell: _percent(cell.high)),
    (
        Column("Margin %", number=True),
        lambda _, cell: "" if cell.margin_percent is None else number(cell.margin_percent),
    ),
    (Column("First", number=True), lambda _, cell: number(cell.before)),
    (Column("Second", number=True), lambda _, cell: number(cell.after)),
    (Column("Unit"), lambda _, cell: UNITS.get(cell.metric, "")),
    *((Column(name), partial(_both, name)) for name in BESIDE),
    (Column("Launches"), lambda _, cell: f"{cell.launches_before} and {cell.launches_after}"),
    (Column("p", number=True), lambda _, cell: "" if cell.p is None else f"{cell.p:.3g}"),
    (Column("Remarks"), lambda _, cell: wording.remark(cell)),
)
