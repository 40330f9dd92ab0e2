"""Tables and findings on compiled models whose input sizes change between calls, for the chapter in compiled.py.

way: how the model is compiled for them (protocol.result.ShapeWay): static, dynamic or padded.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from orchestrator.figures.cells import ShapeFigures, ShapeTimes
from orchestrator.report.numbers import NOT_AVAILABLE, number
from orchestrator.report.sections import Entry, Finding, Table, numbers, table, texts

_WORDS = (
    "One launch ran the sizes in random order. Padded: each size padded to the next bucket. Hits: calls without a "
    "compilation. Total: time of all calls. Padding: elements of the padded inputs divided by those of the real ones. "
    "Padding time: time of later calls divided by that of static ones."
)
_LIMITED = "torch reached its limit of compiled forms: later sizes ran eager"


class ShapeRow(NamedTuple):
    """Figures of a model compiled in one way (static, dynamic, padded). name: model and configuration, as text."""

    name: str
    model: str
    figures: ShapeFigures


def tables(rows: Sequence[ShapeRow]) -> Iterator[Table]:
    """Yield a table with a line for each of `rows`, then a table of call times by input size. Nothing without rows."""
    if not rows:
        return
    columns = (
        *texts("Measurement", "Way"),
        *numbers("Recompiled"),
        *numbers("Hits", priority=2),
        *numbers("Calls", priority=4),
        *numbers("Total s", priority=1),
        *numbers("Padding", "Padding time", priority=3),
    )
    yield table("Changing shapes", columns, [_entries(row) for row in rows], _WORDS, name="shapes")
    columns = (*texts("Measurement", "Way"), *numbers("Size", "First ms", "Later ms"))
    entries = [_times(row, one) for row in rows for one in row.figures.sizes]
    if entries:
        yield table("Changing shapes by size", columns, entries, name="shapes-by-size")


def findings(rows: Sequence[ShapeRow]) -> Iterator[Finding]:
    """Yield up to two findings: on rows that lack figures or ran partly eager, and on reasons to recompile."""
    lacking = [words for row in rows if (words := _remark(row))]
    again = [f"{row.model}, {row.figures.way}: {why}" for row in rows for why in row.figures.reasons]
    for title, lines in (
        ("Changing shapes: what is missing", lacking),
        ("Recompilations with changing shapes", again),
    ):
        if lines:
            yield Finding(None, title, tuple(dict.fromkeys(lines)), listed=True)


def _entries(row: ShapeRow) -> tuple[Entry, ...]:
    figures = row.figures
    return (
        row.name,
        figures.way,
        str(figures.recompilations) if figures.calls else NOT_AVAILABLE,
        NOT_AVAILABLE if figures.cache_hits is None else str(figures.cache_hits),
        str(figures.calls),
        number(None if figures.total_ms is None else figures.total_ms / 1000),
        number(figures.padding),
        number(figures.padding_time),
    )


def _remark(row: ShapeRow) -> str:
    if row.figures.error:
        return f"{row.name}: {row.figures.error}"
    return f"{row.name}, {row.figures.way}: {_LIMITED}" if row.figures.limited else ""


def _times(row: ShapeRow, one: ShapeTimes) -> tuple[Entry, ...]:
    return row.name, row.figures.way, str(one.input_size), number(one.first_call_ms), number(one.later_call_ms)
