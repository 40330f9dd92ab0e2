"""Formats sections as text of at most 80 characters a line, with ASCII frames around tables. Wide characters count two.

section: report/sections.py. indent: text (blanks, not their number) at the start of each line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.box import ASCII2
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from orchestrator.report.sections import Column, Finding, Log, Rank, Section, Table
from orchestrator.system.plain_text import aligned, plain

WIDTH: Final = 80
RULE: Final = "=" * WIDTH
THIN_RULE: Final = "-" * WIDTH
MOST_LINES: Final = 5
"""Largest number of lines of one field of a table: longer ones lose lines before the last."""
LONGEST_NAME: Final = 40
"""Largest width, in characters, of the first column of a table without a frame."""
_LOG_LINES: Final = 8
_MORE: Final = "... and {} more in the JSON report"
_CONSOLE: Final = Console(width=WIDTH, color_system=None, force_terminal=False)


@dataclass(frozen=True)
class Paragraph:
    """Lines of text that belong together. rank: how many of these lines a one-page report shows if space is short.

    section: number of the finding that the lines belong to, as text; "" for others. Of paragraphs of equal rank, the
    first of each finding gets space before the second of any (one_page.py).
    """

    rank: Rank
    lines: tuple[str, ...]
    section: str = ""


def wrap(text: str, indent: str = "", hanging: str = "", columns: int = WIDTH) -> Iterator[str]:
    """Yield `text` as lines of at most `columns` characters that begin with `indent`. Longer words are broken.

    hanging: text that begins all lines but the first, after `indent`. An empty `text` yields no line.
    """
    text = plain(text)
    room = columns - cell_len(indent)
    if cell_len(text) <= room:
        yield from [f"{indent}{text}"] if text else []
        return
    first = _folded_lines(text, room)[0]
    yield f"{indent}{first}"
    rest = text[len(first) :].strip()
    yield from (f"{indent}{hanging}{line}" for line in _folded_lines(rest, room - len(hanging)))


def _folded_lines(text: str, columns: int) -> list[str]:
    return [line.plain.rstrip() for line in Text(text).wrap(_CONSOLE, columns, overflow="fold")]


def bullet(text: str, indent: str = "  ") -> Iterator[str]:
    """Yield `text` as the lines of a list item: "- " before the first, blanks before the others.

    indent: text before every line.
    """
    mark = "- "
    for line in wrap(text, f"{indent}  "):
        yield f"{indent}{mark}{line[len(indent) + 2 :]}"
        mark = "  "


def cut(text: str, columns: int) -> str:
    """Return `text` as one line of at most `columns` characters; "..." replaces its end if it is longer."""
    text = plain(text)
    return text if cell_len(text) <= columns else f"{set_cell_size(text, columns - 3).rstrip()}..."


def centred(text: str) -> str:
    """Return `text`, cut to a line, with blanks before it that put it in the middle of the line."""
    text = cut(text, WIDTH)
    return " " * ((WIDTH - cell_len(text)) // 2) + text


def lines(section: Section | None) -> Iterator[str]:
    """Yield the lines of a section, ending with an empty line; nothing for None."""
    if section is not None:
        yield from (line for paragraph in paragraphs(section) for line in paragraph.lines)


def paragraphs(section: Section, *, heading: bool = True, limited: bool = True) -> Iterator[Paragraph]:
    """Yield a section's paragraphs, none if empty. heading: with title. limited: findings cut to Finding.most lines."""
    content = list(_content(section, limited=limited))
    while content and content[-1].lines == ("",):
        content.pop()
    if content:
        yield from [_must(THIN_RULE, centred(section.title), THIN_RULE, "")] if heading and section.title else []
        yield from content
        yield _must("")


def _must(*lines_of: str) -> Paragraph:
    return Paragraph(Rank.MUST, lines_of)


def _content(section: Section, indent: str = "", *, limited: bool) -> Iterator[Paragraph]:
    for words in section.summary:
        yield _must(*wrap(words, indent, "  "))
    tables = [table for table in section.tables if table.rows]
    for number, table in enumerate(tables):
        if number and not indent:
            yield _must("")
        yield _must(*_captioned(table, "" if table.caption == section.title else table.caption, indent))
    if tables and (section.parts or section.findings or section.notes) and not indent:
        yield _must("")
    for part in section.parts:
        if part.title:
            yield _must(*wrap(part.title, indent))
        yield from _content(part, f"{indent}  " if part.title else indent, limited=limited)
        yield from [] if indent else [_must("")]
    for number, one in enumerate(section.findings[: section.most]):
        yield from _finding(one, indent, str(number), limited=limited)
    if len(section.findings) > section.most:
        yield _must(f"{indent}{_MORE.format(len(section.findings) - section.most)}")
    for words in section.notes:
        yield _must(*wrap(words, indent, "  "))


def _finding(finding: Finding, indent: str, group: str, *, limited: bool) -> Iterator[Paragraph]:
    if finding.label is None:
        badge = "" if finding.badge is None else f"{finding.badge.text[:1].upper()}{finding.badge.text[1:]}"
        yield _must(*wrap(": ".join(filter(None, (badge, finding.title))), indent, "  "))
    lines = list(finding.lines)
    if limited and len(lines) > finding.most:
        lines = [*lines[: finding.most], _MORE.format(len(lines) - finding.most)]
    lines += finding.details if finding.opened else ()
    for number, words in enumerate(lines):
        rank = finding.ranks[min(number, 1)]
        yield Paragraph(rank, tuple(_line(words, finding, indent)), group)
    for log in finding.logs if finding.opened else ():
        yield _must(*_log(log, indent))


def _line(words: str, finding: Finding, indent: str) -> Iterator[str]:
    if finding.label is not None:
        return wrap(": ".join(filter(None, (finding.label, words))), indent, "  ")
    return bullet(words, f"{indent}  ") if finding.listed else wrap(words, f"{indent}  ", "  ")


def _log(log: Log, indent: str) -> Iterator[str]:
    yield f"{indent}  {log.title}:"
    kept = log.lines[-_LOG_LINES:] if log.end else log.lines[:_LOG_LINES]
    yield from (f"{indent}    {cut(line, WIDTH - 4 - len(indent))}" for line in map(aligned, kept))


def _captioned(table: Table, caption: str, indent: str) -> Iterator[str]:
    if caption:
        yield from wrap(f"{caption}:", indent)
        indent += "  " if indent else ""
    beyond = table.beyond + max(len(table.rows) - table.most, 0)
    rows = [[plain(str(entry)) for entry in row] for row in table.rows[: table.most]]
    if table.framed:
        yield from _framed(table.columns, rows, indent)
    else:
        yield from _unframed(table.columns, rows, indent, continued=table.continued)
    if beyond:
        yield from wrap(f"... {table.more.format(beyond)}", indent)
    for words in filter(None, (table.words, *table.remarks)):
        yield from wrap(words, indent, "  " if words in table.remarks else "")


def _framed(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: str) -> Iterator[str]:
    header = [column.title for column in columns]
    widths = [
        max(column.least, *(cell_len(row[place]) for row in (header, *rows))) for place, column in enumerate(columns)
    ]
    kept = fitting(columns, [width + 3 for width in widths], WIDTH - len(indent) - 1)
    dropped = (place for place in range(len(columns)) if place not in kept and columns[place].listed)
    listed = [words for place in dropped for words in _entries(rows, place)]
    widths = _narrowed([widths[place] for place in kept], WIDTH - len(indent) - 3 * len(kept) - 1)
    frame = indent + ASCII2.get_top([width + 2 for width in widths])
    yield frame
    for number, row in enumerate((header, *rows)):
        yield from _row([row[place] for place in kept], widths, indent)
        if not number:
            yield frame
    yield frame
    more = [f"... and {len(listed) - MOST_LINES} more"] if len(listed) > MOST_LINES else []
    for words in (*listed[:MOST_LINES], *more):
        yield from bullet(words, f"{indent}  ")


def _entries(rows: Sequence[Sequence[str]], place: int) -> Iterator[str]:
    """Yield each non-empty text of column `place` once, after the names of its rows: "bert and 2 more: no result".

    The name of a row is its first text. A text that all rows have gets no names.
    """
    names_by_entry: dict[str, list[str]] = {}
    for row in rows:
        names_by_entry.setdefault(row[place], []).append(row[0])
    for entry, names in names_by_entry.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        if entry:
            yield entry if len(names) == len(rows) else f"{names[0]}{more}: {entry}"


def fitting(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """Return the indices of the columns to keep within `room` characters. widths: of the columns, with frame.

    The column with the highest priority is dropped first, one of priority 0 never, even if there is no room.
    """
    kept = list(range(len(columns)))
    while sum(widths[place] for place in kept) > room:
        last = columns[max(kept, key=lambda one: columns[one].priority)]
        if not last.priority:
            break
        kept = [place for place in kept if columns[place] != last]
    return kept


def _narrowed(widths: list[int], room: int) -> list[int]:
    while sum(widths) > room:
        widths[max(range(len(widths)), key=widths.__getitem__)] -= 1
    return widths


def _row(row: Iterable[str], widths: Sequence[int], indent: str) -> Iterator[str]:
    for line in zip_longest(*map(_folded, row, widths), fillvalue=""):
        fields = (f" {set_cell_size(text, width)} " for text, width in zip(line, widths, strict=True))
        yield f"{indent}|{'|'.join(fields)}|"


def _folded(text: str, columns: int) -> list[str]:
    if cell_len(text) <= columns:
        return [text]
    folded = list(wrap(text, "", "  " if columns > 8 else "", columns))
    return folded if len(folded) <= MOST_LINES else [*folded[: MOST_LINES - 2], "...", folded[-1]]


def _unframed(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: str, *, continued: bool
) -> Iterator[str]:
    header = [column.title for column in columns]
    widths = [max(cell_len(row[place]) for row in (header, *rows)) for place in range(len(columns))]
    first = min(LONGEST_NAME, widths[0])
    room = WIDTH - len(indent) - first
    kept = range(len(columns)) if continued else fitting(columns, [width + 1 for width in widths], room + first + 1)
    places = list(kept[1:])
    while places:
        shown = places[:1]
        while len(shown) < len(places) and sum(widths[place] + 1 for place in places[: len(shown) + 1]) <= room:
            shown = places[: len(shown) + 1]
        places = places[len(shown) :]
        for row in (header, *rows):
            name, *below = _folded(row[0], first)
            rest = "".join(f" {' ' * (widths[place] - cell_len(row[place]))}{row[place]}" for place in shown)
            yield f"{indent}{set_cell_size(name, first)}{rest}"
            yield from (f"{indent}{line}" for line in below)
