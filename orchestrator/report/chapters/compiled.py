"""The chapter "Compiled and eager": what torch.compile gains for each model, its cost, and which mode to choose."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from orchestrator.figures.cells import CompilationFigures, PhaseMetrics
from orchestrator.figures.report import Report
from orchestrator.report.chapters import changing_shapes
from orchestrator.report.chapters.changing_shapes import ShapeRow
from orchestrator.report.charts.types import Bars, Kind, Series
from orchestrator.report.device_labels import by_uuid
from orchestrator.report.lines import Line, lines
from orchestrator.report.numbers import NOT_AVAILABLE, number, share
from orchestrator.report.remarks import OWN_CODE
from orchestrator.report.sections import Badge, Chart, Entry, Finding, Section, Table, Tone, numbers, table, texts

_SUMMARY = (
    "Speed-up: time of an eager iteration divided by that of a compiled one, in this run, with its 95% interval. Cold: "
    "compilation with empty caches. Cached: compilation with the caches that the first launch filled. Pays after: "
    "iterations until the saved time exceeds a cold compilation. Error: the largest difference from the eager outputs, "
    "relative to the largest eager output."
)

_UNCERTAIN: Final = 0.5
"""A speed-up that is uncertain by ± this share or more (95 %) recommends nothing."""
_SHOWN: Final = 4
"""Most lines of advice in the brief report."""


@dataclass(frozen=True)
class _Row:
    """A compiled cell. group: name of the cell without its compile mode. model: `group` without the batch size.

    batch: the batch size that ran. mode: the compile mode, or OWN_CODE if the model's code compiles. metric: figures of
    the cell. figures: those of its compilation. line: the cell as `report.lines` yields it.
    """

    group: str
    model: str
    batch: str
    mode: str
    metric: PhaseMetrics
    figures: CompilationFigures
    line: Line


def compiled(report: Report) -> Section | None:
    """Return a table for each compiled model, and which mode to choose; None if no compiled cell has a result."""
    found = [*_rows(report)]
    if not found:
        return None
    shapes = [
        ShapeRow(f"{row.group} {row.mode}", row.line.entry.model_name, one)
        for row in found
        for one in row.figures.shapes
    ]
    return Section(
        "compiled",
        "Compiled and eager",
        (_SUMMARY,),
        charts=tuple(_chart(found)),
        tables=(*_tables(found), *changing_shapes.tables(shapes)),
        findings=(*_advice(found), *_wrong(found), *_breaks(found), *changing_shapes.findings(shapes)),
    )


def briefly(report: Report) -> Section | None:
    """Return the compile mode to choose for each model on the first device; None if none was compared with eager."""
    found = [*_rows(report)]
    on_first = [row for row in found if row.line.entry.gpu_uuid == found[0].line.entry.gpu_uuid]
    advice = tuple(line for finding in _advice(on_first) for line in finding.lines)
    more = (f"and {len(advice) - _SHOWN} more: --full",) if len(advice) > _SHOWN else ()
    return Section("compiled", "Compiled", (*advice[:_SHOWN], *more)) if advice else None


def _rows(report: Report) -> Iterator[_Row]:
    labels = by_uuid(report)
    several = len(report.gpu_info) > 1
    for line in lines(report):
        if isinstance(line.metric, PhaseMetrics) and line.metric.compilation is not None and line.result is not None:
            entry = line.entry
            model = f"{entry.model_name} {entry.workload} {entry.precision}{_size(entry.input_size)}"
            where = f" {labels[entry.gpu_uuid]}" if several else ""
            batch = str(entry.batch_size)
            mode = OWN_CODE if line.metric.compilation.own else line.result.compile_mode
            compilation = line.metric.compilation
            yield _Row(f"{model} b{batch}{where}", f"{model}{where}", batch, mode, line.metric, compilation, line)


def _size(input_size: int | None) -> str:
    return "" if input_size is None else f" input {input_size}"


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tables(found: list[_Row]) -> Iterator[Table]:
    """Yield a table for each model, phase and precision, with a row for each batch size and compile mode."""
    columns = (
        *numbers("Batch"),
        *texts("Mode"),
        *numbers("Iteration ms", priority=4),
        *numbers("Speed-up"),
        *texts("95% interval"),
        *numbers("Cold s"),
        *numbers("Cached s", priority=1),
        *numbers("First call s", priority=6),
        *numbers("Memory", priority=5),
        *numbers("Graphs", priority=6),
        *numbers("Breaks", "Recompilations", priority=4),
        *numbers("Error", priority=2),
        *numbers("Pays after", priority=3),
    )
    for model in dict.fromkeys(row.model for row in found):
        rows = [_entries(row) for row in found if row.model == model]
        yield table(model, columns, rows, name=f"compiled {model}")


def _chart(found: list[_Row]) -> Iterator[Chart]:
    """Yield a bar chart of all speed-ups; nothing if no cell was compared with eager."""
    groups, modes = [*dict.fromkeys(row.group for row in found)], [*dict.fromkeys(row.mode for row in found)]
    gained = {(row.group, row.mode): row.figures.speed_up for row in found}
    if all(value is None for value in gained.values()):
        return
    series = tuple(Series(mode, tuple(gained.get((group, mode)) for group in groups)) for mode in modes)
    bars = Bars("speed-up", "times", tuple(groups), series)
    yield Chart("speed-ups", "Speed-up over eager", Kind.BARS, "Eager is 1. Higher is better.", (bars,))


def _entries(row: _Row) -> tuple[Entry, ...]:
    figures = row.figures
    return (
        row.batch,
        row.mode,
        number(row.metric.total_iteration_time_ms),
        Badge("WRONG", Tone.BAD) if row.metric.wrong else _times(figures.speed_up),
        _interval(figures),
        _seconds(figures.cold_compile_ms),
        _seconds(figures.cached_compile_ms),
        _seconds(figures.cold_first_call_ms),
        NOT_AVAILABLE if figures.memory_of_eager is None else share(figures.memory_of_eager * 100),
        str(figures.graphs),
        str(len(figures.graph_breaks)),
        str(len(figures.recompilations)),
        _error(figures),
        NOT_AVAILABLE if figures.pays_after_iterations is None else f"{figures.pays_after_iterations:,}",
    )


def _times(speed_up: float | None) -> str:
    return NOT_AVAILABLE if speed_up is None else f"{speed_up:.2f}"


def _interval(figures: CompilationFigures) -> str:
    if figures.speed_up_low is None:
        return NOT_AVAILABLE
    return f"{_times(figures.speed_up_low)} to {_times(figures.speed_up_high)}"


def _seconds(milliseconds: float | None) -> str:
    return number(None if milliseconds is None else milliseconds / 1000)


def _error(figures: CompilationFigures) -> str:
    return NOT_AVAILABLE if figures.relative_error is None else f"{figures.relative_error:.0e}"


# ── findings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _advice(found: list[_Row]) -> Iterator[Finding]:
    groups: dict[str, list[_Row]] = {}
    for row in found:
        if row.figures.speed_up is not None or row.metric.wrong:
            groups.setdefault(row.group, []).append(row)
    own = {row.group for row in found if row.figures.own}
    said = tuple(f"{group}: {_best(rows, OWN_CODE if group in own else 'eager')}" for group, rows in groups.items())
    if said:
        yield Finding(None, "Which mode to choose", said, listed=True)


def _best(rows: list[_Row], reference: str) -> str:
    """Return which compile mode of one group to choose, as text with the evidence.

    It is the fastest mode with correct results whose speed-up over uncompiled is certain. Without one, the text says
    "undecided" if a gain is too uncertain, else `reference` (the word for uncompiled). rows: the group's compiled
    cells.
    """
    right = [row for row in rows if not row.metric.wrong]
    clear = [row for row in right if not _is_vague(row.figures)]
    sure = [
        row for row in clear if row.figures.pays_after_iterations is not None and (row.figures.speed_up_low or 0.0) > 1
    ]
    if not sure and any(row.figures.speed_up_low is None for row in right):
        return "undecided. The speed-up has no interval: measure longer (--profile standard)."
    if not sure and len(clear) < len(right):
        return "undecided. The launches differ too much: measure again on an idle machine, with more --launches."
    if not sure:
        return f"{reference}. No mode is certainly faster."
    best = max(sure, key=lambda row: row.figures.speed_up or 0.0)
    evidence = f"{_times(best.figures.speed_up)} times, pays after {best.figures.pays_after_iterations:,} iterations"
    return f"{best.mode} ({evidence}, error {_error(best.figures)})."


def _is_vague(figures: CompilationFigures) -> bool:
    middle, high = figures.speed_up, figures.speed_up_high
    return middle is not None and high is not None and high - middle >= _UNCERTAIN * middle


def _wrong(found: list[_Row]) -> Iterator[Finding]:
    for row in found:
        if row.metric.wrong:
            yield Finding(
                Badge("WRONG", Tone.BAD),
                f"{row.group} {row.mode}",
                (f"{row.group} {row.mode}: {row.metric.wrong}.",),
            )


def _breaks(found: list[_Row]) -> Iterator[Finding]:
    for title, places in (
        ("Graph breaks", [(row.line.entry.model_name, row.figures.graph_breaks) for row in found]),
        ("Recompilations", [(row.line.entry.model_name, row.figures.recompilations) for row in found]),
    ):
        if named := dict.fromkeys(f"{model}: {place}" for model, of_model in places for place in of_model):
            yield Finding(None, title, tuple(named), listed=True)
