"""Lines, rules, tables and wrapped words for the text report, never wider than 80 columns as a terminal counts them."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from orchestrator.report.plain import plain

WIDTH: Final = 80
RULE: Final = "=" * WIDTH
THIN_RULE: Final = "-" * WIDTH
LEAST: Final = (16, 11)
"""Widths of the columns in the requirements document: the first, the others."""


def width(text: str) -> int:
    """Columns that `text` takes: two for wide East Asian characters, none for combining marks."""
    return sum(_columns(character) for character in text)


def cut(text: str, columns: int) -> str:
    """`text` on one line, cut to so many columns; what was cut is shown by "..."."""
    text = plain(text)
    if width(text) <= columns:
        return text
    kept, used = "", 0
    for character in text:
        used += _columns(character)
        if used > columns - 3:
            break
        kept += character
    return f"{kept}..."


def wrap(text: str, indent: str = "", hanging: str = "") -> Iterator[str]:
    """`text` as lines that begin with `indent`, later ones with `hanging` too. A word too long for a line is broken."""
    line, start = indent, indent
    for word in plain(text).split(" "):
        rest = word
        while rest:
            joined = rest if line == start else f" {rest}"
            if width(line) + width(joined) <= WIDTH:
                line += joined
                break
            if line != start:
                yield line
                line = start = indent + hanging
                continue
            fitting = _head(rest, WIDTH - width(line))
            yield line + fitting
            rest = rest[len(fitting) :]
            line = start = indent + hanging
    if line != start:
        yield line


def pad(text: str, columns: int) -> str:
    """`text` on one line, cut or filled with blanks to exactly so many columns."""
    text = cut(text, columns)
    return text + " " * (columns - width(text))


def bullets(notes: Iterable[str], limit: int) -> Iterator[str]:
    """The notes as a list; of more than `limit` the number alone."""
    notes = list(notes)
    for note in notes[:limit]:
        yield from wrap(f"- {note}", "  ", "  ")
    if len(notes) > limit:
        yield f"  - ... and {len(notes) - limit} more in the JSON report"


def centred(text: str) -> str:
    """`text` in the middle of the line."""
    text = cut(text, WIDTH)
    return " " * ((WIDTH - width(text)) // 2) + text


def chapter(title: str) -> list[str]:
    """The heading of a part of the report."""
    return [THIN_RULE, centred(title), THIN_RULE, ""]


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "", least: tuple[int, int] = (0, 0)
) -> list[str]:
    """A table in a frame of ASCII.

    Columns are as wide as their text, but at least `least` (the first column, the others). Where the whole would not
    fit, the widest are cut; some ten columns are the most that a line holds.
    """
    lines = [[plain(text) for text in row] for row in (header, *rows)]
    widths = [max(width(row[column]) for row in lines) for column in range(len(header))]
    widths = [max(columns, least[0 if index == 0 else 1]) for index, columns in enumerate(widths)]
    room = WIDTH - len(indent) - 3 * len(header) - 1
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda column: widths[column])
        widths[widest] -= 1
    frame = f"{indent}+{'+'.join('-' * (columns + 2) for columns in widths)}+"
    drawn = [
        f"{indent}|{'|'.join(f' {pad(text, columns)} ' for text, columns in zip(row, widths, strict=True))}|"
        for row in lines
    ]
    return [frame, drawn[0], frame, *drawn[1:], frame]


def _head(text: str, columns: int) -> str:
    """As much of `text` as fits into so many columns, at least one character."""
    used = 0
    for index, character in enumerate(text):
        used += _columns(character)
        if used > columns and index > 0:
            return text[:index]
    return text


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
