"""The brief report for a terminal: the answer first, in some twenty lines. `to_text` has the rest.

RESULT    COMPLETE  168 of 168 cells measured, health PASS
GPUS      GPU 0 to GPU 3 are equal within 0.3% (4 cells that can show it)
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from orchestrator.figures.report import Report
from orchestrator.report.chapters import brief
from orchestrator.report.layout import Layout
from orchestrator.report.sections import Column, Finding, Section, Table, Tone
from orchestrator.report.text import cut, fitting, wrap
from orchestrator.system.plain_text import plain

LEAST_WIDTH: Final = 80
MOST_WIDTH: Final = 120
_LABEL: Final = 10
_INDENT: Final = " " * _LABEL
_BOLD: Final = "1"
_COLOURS: Final = {Tone.GOOD: "32", Tone.WARN: "33", Tone.BAD: "1;31", Tone.QUIET: "2"}
"""Codes of a terminal (ECMA-48)."""


def sections(report: Report, layout: Layout) -> tuple[Section, ...]:
    """Return the sections: the verdict, then those of the layout."""
    parts = (brief.result(report, layout), *(chapter(report) for chapter in layout.brief))
    return tuple(part for part in parts if part is not None)


def to_brief(
    report: Report, layout: Layout, details: Sequence[str] = (), *, columns: int = LEAST_WIDTH, colour: bool = False
) -> str:
    """The brief report, without a newline at its end. details: where the full reports are."""
    width = min(max(columns, LEAST_WIDTH), MOST_WIDTH)
    lines = list(wrap(brief.title(report, layout), "", "  ", width))
    for part in sections(report, layout):
        lines += _part(part, width, colour=colour)
    lines += _labelled("Details", map(plain, details), colour=colour)  # never folded: paths are copied
    return "\n".join(line.rstrip() for line in lines)


def _coloured(text: str, code: str | None, *, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code else text


def _part(part: Section, width: int, *, colour: bool) -> Iterator[str]:
    room = width - _LABEL
    lines = [line for words in part.summary for line in wrap(words, "", "  ", room)]
    lines += [line for finding in part.findings for line in _finding(finding, room, colour=colour)]
    lines += [line for words in part.notes for line in wrap(words, "", "  ", room)]
    yield from _labelled(part.title, lines, colour=colour)
    for table in part.tables:
        yield from [f"  {cut(table.caption, width - 2)}"] if table.caption else []
        yield from _table(table, width)


def _labelled(title: str, lines: Iterable[str], *, colour: bool) -> Iterator[str]:
    label = _coloured(f"{title.upper():<{_LABEL}}", _BOLD, colour=colour)
    return (f"{_INDENT if number else label}{line}" for number, line in enumerate(lines))


def _finding(finding: Finding, room: int, *, colour: bool) -> Iterator[str]:
    """Yield badge and title, then all lines in full, because nobody can act on a reason that is cut off."""
    badge = plain(finding.badge.text) if finding.badge else ""
    code = _COLOURS.get(finding.badge.tone) if finding.badge else None
    on_one_line = cell_len(badge) + 2 + cell_len(finding.title) <= room
    yield _coloured(badge, code, colour=colour) + (f"  {plain(finding.title)}" if on_one_line else "")
    yield from () if on_one_line else (f"  {line}" for line in wrap(finding.title, "", "", room - 2))
    for words in finding.lines:
        yield from wrap(words, "  ", "  ", room)


def _table(table: Table, width: int) -> Iterator[str]:
    """The table below its part's title, without the columns that have no room."""
    rows = [[column.title for column in table.columns], *([plain(str(entry)) for entry in row] for row in table.rows)]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(table.columns))]
    kept = fitting(table.columns, [one + 1 for one in widths], width - 1)
    for row in rows:
        fields = (_aligned(row[place], widths[place], table.columns[place]) for place in kept)
        line = f"  {' '.join(fields)}"
        yield line if cell_len(line) <= width else set_cell_size(line, width)


def _aligned(text: str, width: int, column: Column) -> str:
    blanks = " " * (width - cell_len(text))
    return f"{blanks}{text}" if column.number else f"{text}{blanks}"
