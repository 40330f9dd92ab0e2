"""Lines, rules, tables and wrapped words for the text report, never wider than 80 columns as a terminal counts them."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Final

from orchestrator.system.plain_text import plain

WIDTH: Final = 80
RULE: Final = "=" * WIDTH
THIN_RULE: Final = "-" * WIDTH
LEAST: Final = (16, 11)
"""Widths of the columns in the requirements document: the first, the others."""
MOST_LINES: Final = 5
"""Of one field. What tells two names apart may stand anywhere in them, but no name is a page long."""
_HANGING: Final = "  "


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


def wrap(text: str, indent: str = "", hanging: str = "", columns: int = WIDTH) -> Iterator[str]:
    """`text` as lines that begin with `indent`, later ones with `hanging` too. A word too long for a line is broken."""
    line, start = indent, indent
    for word in plain(text).split(" "):
        rest = word
        while rest:
            joined = rest if line == start else f" {rest}"
            if width(line) + width(joined) <= columns:
                line += joined
                break
            if line != start:
                yield line
                line = start = indent + hanging
                continue
            fitting = _head(rest, columns - width(line))
            yield line + fitting
            rest = rest[len(fitting) :]
            line = start = indent + hanging
    if line != start:
        yield line


def pad(text: str, columns: int) -> str:
    """`text` on one line, cut or filled with blanks to exactly so many columns."""
    return _filled(cut(text, columns), columns)


def beside(name: str, columns: int, rest: str, indent: str = "") -> Iterator[str]:
    """A line of a name in so many columns, with `rest` behind it; what is left of the name stands below."""
    first, *more = _folded(plain(name), columns)
    yield f"{indent}{_filled(first, columns)}{rest}"
    yield from (f"{indent}{line}" for line in more)


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
    fit, the widest are made narrower, and their text goes on below; some ten columns are the most that a line holds.
    """
    lines = [[plain(text) for text in row] for row in (header, *rows)]
    widths = [max(width(row[column]) for row in lines) for column in range(len(header))]
    widths = [max(columns, least[0 if index == 0 else 1]) for index, columns in enumerate(widths)]
    room = WIDTH - len(indent) - 3 * len(header) - 1
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda column: widths[column])
        widths[widest] -= 1
    frame = f"{indent}+{'+'.join('-' * (columns + 2) for columns in widths)}+"
    header_lines, *drawn = (
        [
            f"{indent}|{'|'.join(f' {_filled(text, columns)} ' for text, columns in zip(line, widths, strict=True))}|"
            for line in zip_longest(*map(_folded, row, widths), fillvalue="")
        ]
        for row in lines
    )
    return [frame, *header_lines, frame, *chain.from_iterable(drawn), frame]


def _folded(text: str, columns: int) -> list[str]:
    """`text` in so many columns, on as many lines as it takes; of more than MOST_LINES, those of its two ends."""
    if width(text) <= columns:
        return [text]
    lines = list(wrap(text, "", _HANGING if columns > len(_HANGING) * 4 else "", columns))
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 2], "...", lines[-1]]


def _filled(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


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
