"""Comparisons as one HTML file, with the verdict and exit code first."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from orchestrator.compare import wording
from orchestrator.compare.comparison import ComparedCell, Comparison
from orchestrator.compare.wording import LEGEND, MEANS
from orchestrator.config.naming import plural
from orchestrator.figures.table import UNITS
from orchestrator.report.chapters.cells import batch
from orchestrator.report.charts import Kind, Ratio, Ratios
from orchestrator.report.html.render import Page
from orchestrator.report.html.size_limit import fitted
from orchestrator.report.numbers import NOT_AVAILABLE, number
from orchestrator.report.sections import (
    Badge,
    Card,
    Cells,
    Chart,
    Column,
    Entry,
    Section,
    Table,
    Tone,
    numbers,
    ranked,
    table,
    texts,
)
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.exit_codes import ExitCode

MOST_DRAWN: Final = 60
"""Cells of one chart, the gravest first."""
MOST_NAMES: Final = 30
"""Names of cells per reason for no verdict."""
TOGETHER: Final = "all together"
_ELSEWHERE: Final = "--format json"
_ENDS: Final = {
    ExitCode.PASSED: Badge("PASSED", Tone.GOOD),
    ExitCode.MISSED: Badge("FAILED", Tone.BAD),
    ExitCode.INCOMPLETE: Badge("INCOMPLETE", Tone.WARN),
}
_TONES: Final = {
    ChangeVerdict.SLOWER: Tone.BAD,
    ChangeVerdict.FASTER: Tone.GOOD,
    ChangeVerdict.INCONCLUSIVE: Tone.WARN,
    ChangeVerdict.SAME: Tone.PLAIN,
    ChangeVerdict.NOT_COMPARABLE: Tone.QUIET,
}
_WITHOUT_VERDICT: Final = (ChangeVerdict.NOT_COMPARABLE, ChangeVerdict.INCONCLUSIVE)
_FILTERED: Final = ("Second run", "GPU", "Phase", "Mode", "Verdict")


def to_html(comparisons: Sequence[Comparison], code: ExitCode) -> bytes:
    """Render one or several comparisons as HTML."""
    return fitted(page(comparisons, code))


def page(comparisons: Sequence[Comparison], code: ExitCode) -> Page:
    """Build the page of one or several comparisons."""
    first = comparisons[0]
    several = len(comparisons) > 1
    title = first.title[:1].upper() + first.title[1:]
    heading = f"{len(comparisons)} runs against {first.before}" if several else title
    return Page(
        title=f"{_ENDS[code].text}: {heading}",
        heading=heading,
        verdict=_ENDS[code],
        meaning=f"Exit code {int(code)}: {MEANS[code]}",
        reasons=tuple(f"{_runs(one)}: {wording.headline(one)}" for one in comparisons),
        notices=tuple(dict.fromkeys(words for one in comparisons for words in one.notes)),
        elsewhere=_ELSEWHERE,
        facts_title="Runs and margins",
        facts=tuple(_facts(comparisons)),
        cards=tuple(_card_of_run(one) for one in comparisons) if several else tuple(_cards(first)),
        sections=(_changes(comparisons), _speed(comparisons), _without_verdict(comparisons)),
        cells=_cells(comparisons),
        file_name="gpubench-comparison.csv",
        footer=f"Made by gpubench from the runs named here. Every value is in {_ELSEWHERE}.",
    )


def _runs(one: Comparison) -> str:
    return f"{one.label_before} -> {one.label_after}"


def _facts(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    yield "First run", comparisons[0].label_before
    yield from (("Second run", one.label_after) for one in comparisons)
    margins = sorted({cell.margin_percent for one in comparisons for cell in one.cells if cell.margin_percent})
    if margins:
        yield "Margin, by cell", f"{', '.join(number(margin) for margin in margins)} %"


def _cards(one: Comparison) -> Iterator[Card]:
    yield Card("Geometric mean of the speed", *_mean(one))
    for verdict in wording.GRAVEST_FIRST:
        if count := one.counts.get(verdict, 0):
            yield Card(verdict, str(count), f"of {plural(len(one.cells), 'cell')}", _TONES[verdict])


def _card_of_run(one: Comparison) -> Card:
    figure, detail = _mean(one)
    return Card(f"Geometric mean, {one.after}", figure, "; ".join((wording.verdicts(one), detail)))


def _mean(one: Comparison) -> tuple[str, str]:
    """Return figure and detail."""
    if one.mean is None:
        return NOT_AVAILABLE, "no cell compares"
    interval = wording.interval(one.mean)
    between = f"{interval} (95%), " if interval else ""
    return f"{one.mean.ratio:.3f}", f"{between}over {plural(one.mean.cells, 'cell')}; above 1 is faster"


def _changes(comparisons: Sequence[Comparison]) -> Section:
    tables = [
        table(
            one.title if len(comparisons) == 1 else f"{_runs(one)}: {one.title}",
            texts("Fact", "First", "Second"),
            [(change.name, change.before or "unknown", change.after or "unknown") for change in one.changes],
            elsewhere=_ELSEWHERE,
        )
        for one in comparisons
        if one.changes
    ]
    alike = [f"{_runs(one)}: {one.title}." for one in comparisons if not one.changes]
    return Section("changes", "What changed in the stack", tuple(alike), tables=tuple(tables))


def _speed(comparisons: Sequence[Comparison]) -> Section:
    compared = [(one, _with_ratio(one)) for one in comparisons]
    plots = tuple(Ratios(_runs(one), tuple(_drawn(one, cells))) for one, cells in compared if cells)
    rows = [row for one, cells in compared for row in _said(one, cells, several=len(comparisons) > 1)]
    header = (*texts("Cell"), *numbers("Speed", "95% interval", "Margin %"), *texts("Verdict"))
    cut = any(len(cells) > MOST_DRAWN for _, cells in compared)
    note = f"The chart has the first {MOST_DRAWN} cells of each pair of runs." if cut else ""
    chart = Chart(
        "ratios",
        "Speed of the second run over the first",
        Kind.RATIOS,
        "Each cell with its 95 % interval; the band is the margin, within which it counts as the same. What matters "
        "comes first. An interval without an end goes beyond the chart.",
        plots,
        "ratios",
        "" if plots else f"There is nothing to draw: {wording.NOTHING}, or nothing that was compares.",
        "Runs" if len(comparisons) > 1 else "",
    )
    said = table("Speed of the second run over the first", header, rows, note, elsewhere=_ELSEWHERE, name="ratios")
    return Section("speed", "Speed of each cell", (LEGEND,), charts=(chart,), tables=(said,), wide=True)


def _with_ratio(one: Comparison) -> list[tuple[ComparedCell, float]]:
    return [(cell, cell.ratio) for cell in wording.ordered(one.cells) if cell.ratio is not None]


def _drawn(one: Comparison, cells: Sequence[tuple[ComparedCell, float]]) -> Iterator[Ratio]:
    name = wording.naming(one)
    if one.mean is not None:
        mean = one.mean
        yield Ratio("geometric mean", TOGETHER, mean.ratio, mean.low, mean.high, None, None, (wording.mean(one),))
    for cell, ratio in cells[:MOST_DRAWN]:
        # The same width both ways on the logarithm, as the test has it.
        share = None if cell.margin_percent is None else 1 - cell.margin_percent / 100
        said = (cell.verdict, f"speed {wording.ratio(cell)}", _interval(cell), _margin(cell), wording.remark(cell))
        yield Ratio(
            name(cell),
            cell.verdict,
            ratio,
            cell.low,
            cell.high,
            share,
            None if share is None else 1 / share,
            tuple(filter(None, said)),
        )


def _interval(cell: ComparedCell) -> str:
    return f"95 % interval {wording.interval(cell)}" if cell.low is not None else ""


def _margin(cell: ComparedCell) -> str:
    return "" if cell.margin_percent is None else f"margin {number(cell.margin_percent)} %"


def _said(
    one: Comparison, cells: Sequence[tuple[ComparedCell, float]], *, several: bool
) -> Iterator[tuple[Entry, ...]]:
    """Yield the chart as rows, the mean included."""
    name, of = wording.naming(one), f", {one.after}" if several else ""
    if one.mean is not None:
        yield f"geometric mean{of}", f"{one.mean.ratio:.3f}", wording.interval(one.mean), "", ""
    for cell, _ in cells:
        margin = "" if cell.margin_percent is None else number(cell.margin_percent)
        yield f"{name(cell)}{of}", wording.ratio(cell), wording.interval(cell), margin, _badge(cell.verdict)


def _without_verdict(comparisons: Sequence[Comparison]) -> Section:
    several = len(comparisons) > 1
    rows: list[tuple[Entry, ...]] = [
        (*((_runs(one),) if several else ()), _badge(verdict), words, str(len(names)), _names(names))
        for one in comparisons
        for verdict in _WITHOUT_VERDICT
        for words, names in wording.grouped(one, verdict).items()
    ]
    apart = tuple(f"{words}." for one in comparisons for words in wording.apart(one, MOST_NAMES))
    header = (*texts(*(("Runs",) if several else ()), "Verdict", "Fact"), *numbers("Cells"), *texts("Which"))
    tables = (table("Cells without a verdict, and why", header, rows, elsewhere=_ELSEWHERE),) if rows else ()
    words = apart if rows or apart else ("Every cell has a verdict.",)
    return Section("apart", "Not comparable, or not settled", words, tables=tables)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _badge(verdict: ChangeVerdict) -> Badge:
    return Badge(verdict, _TONES[verdict])


def _cells(comparisons: Sequence[Comparison]) -> Cells:
    fields = _FIELDS if len(comparisons) > 1 else _FIELDS[1:]
    found = [
        (wording.GRAVEST_FIRST.index(cell.verdict), partial(_row, fields, one, cell))
        for one in comparisons
        for cell in wording.ordered(one.cells)
    ]
    columns = tuple(column for column, _ in fields)
    narrowed = tuple(place for place, column in enumerate(columns) if column.title in _FILTERED)
    more = f"{{}} more cells are in {_ELSEWHERE}; what matters is here first."
    return ranked(Table("All cells", columns, (), more=more), narrowed, found)


def _row(fields: Sequence["_Field"], one: Comparison, cell: ComparedCell) -> tuple[Entry, ...]:
    return tuple(say(one, cell) for _, say in fields)


def _gpu(_one: Comparison, cell: ComparedCell) -> str:
    return cell.gpu_before if cell.gpu_before == cell.gpu_after else f"{cell.gpu_before} -> {cell.gpu_after}"


def _bound(value: float | None, digits: str = ".3f") -> str:
    return "" if value is None else f"{value:{digits}}"


_Field = tuple[Column, Callable[[Comparison, ComparedCell], Entry]]
_FIELDS: Final[tuple[_Field, ...]] = (
    (Column("Second run"), lambda one, _: one.after),
    (Column("GPU"), _gpu),
    (Column("Model"), lambda _, cell: cell.model_name),
    (Column("Phase"), lambda _, cell: cell.phase),
    (Column("Precision"), lambda _, cell: cell.precision),
    (Column("Mode"), lambda _, cell: cell.mode),
    (Column("Input", number=True), lambda _, cell: "" if cell.input_size is None else str(cell.input_size)),
    (Column("Batch", number=True), lambda _, cell: batch(cell.phase, cell.batch_size)),
    (Column("Verdict"), lambda _, cell: _badge(cell.verdict)),
    (Column("Speed", number=True), lambda _, cell: wording.ratio(cell)),
    (Column("95% from", number=True), lambda _, cell: _bound(cell.low)),
    (Column("95% to", number=True), lambda _, cell: _bound(cell.high)),
    (
        Column("Margin %", number=True),
        lambda _, cell: "" if cell.margin_percent is None else number(cell.margin_percent),
    ),
    (Column("First", number=True), lambda _, cell: number(cell.before)),
    (Column("Second", number=True), lambda _, cell: number(cell.after)),
    (Column("Unit"), lambda _, cell: UNITS.get(cell.metric, "")),
    (Column("Launches"), lambda _, cell: f"{cell.launches_before} and {cell.launches_after}"),
    (Column("p", number=True), lambda _, cell: _bound(cell.p, ".3g")),
    (Column("Remarks"), lambda _, cell: wording.remark(cell)),
)
