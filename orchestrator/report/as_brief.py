"""The brief report for a terminal: the answer first, in some twenty lines. `to_text` has the rest.

RESULT    COMPLETE  168/168 cells, health PASS
GPUS      equal within 0.3% (5 steady GPU-bound configurations)
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from orchestrator.figures.report import Report
from orchestrator.report.chapters import brief, overview
from orchestrator.report.chapters.stragglers import concerns_gpus
from orchestrator.report.layout import Layout
from orchestrator.report.sections import Column, Finding, Section, Table, Tone
from orchestrator.report.text import cut, fitting, wrap
from orchestrator.system.plain_text import plain

LEAST_WIDTH: Final = 80
MOST_WIDTH: Final = 120
MOST_LINES: Final = 40
_CUTS: Final = (((), None), (("probes",), None))
_CUTS_FOR_GPUS: Final = (*_CUTS, (("probes", "best"), None), (("probes", "best"), 3), (("probes", "best"), 2))
"""(parts that are left to --full, limit of lines of a GPU's finding), tried in turn until the report has at most
MOST_LINES. With a faulty or slow GPU, what to do with it comes before the best configurations.
"""
_LABEL: Final = 10
_SHORT: Final = 24
"""Longest badge, in characters, beside which a title begins that does not fit on the same line."""
_INDENT: Final = " " * _LABEL
_BOLD: Final = "1"
_COLOURS: Final = {Tone.GOOD: "32", Tone.WARN: "33", Tone.BAD: "1;31", Tone.QUIET: "2"}
"""Tone → colour as a terminal's escape code (ECMA-48)."""


def sections(report: Report, layout: Layout) -> tuple[Section, ...]:
    """Return the sections of the brief report that have content: verdict, chapters of the layout, what to do next."""
    parts = (brief.result(report, layout), *(chapter(report) for chapter in layout.brief), layout.next_steps(report))
    return tuple(part for part in parts if part is not None)


def to_brief(
    report: Report, layout: Layout, details: Sequence[str] = (), *, columns: int = LEAST_WIDTH, colour: bool = False
) -> str:
    """Return the brief report, without a newline at its end. details: paths of the full reports, shown last.

    columns: width of the terminal; less than 80 counts as 80, more than 120 as 120. colour: add escape codes. A report
    that exceeds MOST_LINES is shortened in steps, and may still exceed it.
    """
    width = min(max(columns, LEAST_WIDTH), MOST_WIDTH)
    parts, lines = sections(report, layout), list[str]()
    for left_out, most in _CUTS_FOR_GPUS if layout.judges_gpus or concerns_gpus(report) else _CUTS:
        lines = list(wrap(f"gpubench: {overview.heading(report, layout)}", "", "  ", width))
        for part in parts:
            if part.id not in left_out:
                lines += _part(part, width, most if part.id == "gpus" else None, colour=colour)
            elif part.tables:
                lines += _labelled(part.title, ("--full shows it",), colour=colour)
        conditions = wrap(brief.conditions(report, layout), "", "  ", width - _LABEL)
        lines += _labelled("Details", (*conditions, *map(plain, details)), colour=colour)  # paths are never folded
        if len(lines) <= MOST_LINES:
            break
    return "\n".join(line.rstrip() for line in lines)


def _coloured(text: str, code: str | None, *, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code else text


def _part(part: Section, width: int, most: int | None, *, colour: bool) -> Iterator[str]:
    room = width - _LABEL
    lines = [line for words in part.summary for line in wrap(words, "", "  ", room)]
    lines += [line for finding in part.findings for line in _finding(finding, room, most, colour=colour)]
    lines += [line for words in part.notes for line in wrap(words, "", "  ", room)]
    yield from _labelled(part.title, lines or [""], colour=colour)
    for table in part.tables:
        yield from [f"  {cut(table.caption, width - 2)}"] if table.caption else []
        yield from _table(table, width)
        yield from (line for words in table.remarks for line in wrap(words, "  ", "  ", width))


def _labelled(title: str, lines: Iterable[str], *, colour: bool) -> Iterator[str]:
    label = f"{title.upper():<{_LABEL}}"
    for number, line in enumerate(lines):
        first = _coloured(label if line else label.rstrip(), _BOLD, colour=colour)
        yield f"{_INDENT if number else first}{line}"


def _finding(finding: Finding, room: int, most: int | None, *, colour: bool) -> Iterator[str]:
    """Yield the lines of a finding: badge and title, then its text. room: characters of a line.

    most: the title and `most` - 1 lines of its text are shown, each cut to fit; None: everything, wrapped.
    """
    badge = plain(finding.badge.text) if finding.badge else ""
    code = _COLOURS.get(finding.badge.tone) if finding.badge else None
    title, lines = plain(finding.title), finding.lines
    left = room - cell_len(badge) - 2
    if most is not None:
        title, lines = cut(title, left), tuple(cut(words, room - 2) for words in lines[: most - 1])
    first, *rest = wrap(badge, "", "  ", room) if badge else ("",)
    begins = cell_len(title) <= left or cell_len(badge) <= _SHORT
    beside = next(wrap(title, columns=left), "") if begins else ""
    yield _coloured(first, code, colour=colour) + (f"  {beside}" if beside else "")
    yield from (_coloured(line, code, colour=colour) for line in rest)
    for words in (title[len(beside) :].strip(), *lines):
        yield from wrap(words, "  ", "  ", room)


def _table(table: Table, width: int) -> Iterator[str]:
    """Yield the lines of a table, each at most `width` characters long.

    Of the columns outside blocks (Column.block), those without room are dropped, the highest Column.priority first. A
    block without room beside the other columns follows below them.
    """
    titles = [column.short or column.title for column in table.columns]
    rows = [titles, *([plain(str(entry)) for entry in row] for row in table.rows)]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(table.columns))]
    for kept in _blocks(table.columns, [one + 1 for one in widths], width - 1):
        for row in (row for row in rows if any(row[place] for place in kept[1:])):
            fields = (_aligned(row[place], widths[place], table.columns[place]) for place in kept)
            line = f"  {' '.join(fields)}"
            yield line if cell_len(line) <= width else set_cell_size(line, width)


def _blocks(columns: Sequence[Column], widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the indices of the columns of each part of a table that is too wide. Parts are shown one below another.

    Each part begins with the columns that belong to no block (Column.block). Without room, those of the highest
    priority are dropped. As many whole blocks as have room follow beside them; the others go into the next part.
    widths: of each column with a blank, in characters. room: width of the table in characters.
    """
    common = [place for place, column in enumerate(columns) if not column.block]
    fit = fitting([columns[place] for place in common], [widths[place] for place in common], room)
    kept = [common[place] for place in fit]
    together = kept
    for block in dict.fromkeys(column.block for column in columns if column.block):
        places = [place for place, column in enumerate(columns) if column.block == block]
        if together != kept and sum(widths[place] for place in (*together, *places)) > room:
            yield together
            together = kept
        together = [*together, *places]
    yield together


def _aligned(text: str, width: int, column: Column) -> str:
    blanks = " " * (width - cell_len(text))
    return f"{blanks}{text}" if column.number else f"{text}{blanks}"
