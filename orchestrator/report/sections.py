"""A report as a tree of sections. Chapters make sections of a Report, and every format renders them.

Section ── summary, Chart (names the Table with the same data), Table, Finding, parts (nested sections)

Text and Markdown show no charts. They drop columns by priority, closed details, and paragraphs by rank.
"""

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.report.charts import Kind, Plot
from orchestrator.report.numbers import NOT_AVAILABLE

MOST_ROWS: Final = 500
"""Most rows of a table in HTML."""
MOST_CELLS: Final = 1500
"""Most rows of the table of all cells."""


EMPTY: Final = frozenset({"", NOT_AVAILABLE})
"""Entries that say nothing."""
SHOWN_REASONS: Final = 3
"""Most reasons for a verdict on a one-page report."""


class Tone(enum.StrEnum):
    """Colour of a statement, which is always in words as well."""

    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


class Rank(enum.IntEnum):
    """How much of a paragraph a full page must show."""

    MUST = 0
    """Show all of it."""
    GRAVEST = 1
    """Show its first line, and all of it before the second line of any other paragraph."""
    TOLD = 2
    """Show a line, if there is room after MUST."""
    MORE = 3
    """Show a line, if there is room after all graver paragraphs."""


@dataclass(frozen=True)
class Badge:
    """A highlighted word."""

    text: str
    tone: Tone

    def __str__(self) -> str:
        return self.text


Entry = str | Badge


@dataclass(frozen=True)
class Column:
    """A column. number: aligned and sorted as numbers. priority: the highest is dropped first, 0 never.

    listed: entries of a dropped column are listed below the table. least: minimal width in text.
    """

    title: str
    number: bool = False
    priority: int = 0
    listed: bool = False
    least: int = 0


@dataclass(frozen=True)
class Table:
    """A table. caption: title. words: note below. framed: in text; a wide unframed table continues below.

    beyond: number of missing rows; more: where they are, with a place for the number. most: rows in text. remarks:
    paragraphs about single rows or columns.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    words: str = ""
    beyond: int = 0
    more: str = "{} more rows are in report.json."
    name: str = ""
    framed: bool = True
    most: int = MOST_ROWS
    remarks: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The text below the table."""
        return " ".join(filter(None, (self.words, self.more.format(self.beyond) if self.beyond else "")))


@dataclass(frozen=True)
class Chart:
    """A chart of the table named `table`. choice: title of the choice among plots. left_out: only the table has it."""

    id: str
    title: str
    kind: Kind
    says: str
    plots: tuple[Plot, ...] = ()
    table: str = ""
    choice: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class Log:
    """Lines of a file. end: narrow formats show the last lines, not the first."""

    title: str
    lines: tuple[str, ...]
    end: bool = False


@dataclass(frozen=True)
class Finding:
    """Something to read: lines, then details, then logs.

    opened: shown in full; otherwise text shows the lines alone. listed: lines are items of a list. label: precedes each
    line in text instead of the title. most: lines in text where room is short. ranks: of the first line, and of the
    others.
    """

    badge: Badge | None
    title: str
    lines: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    logs: tuple[Log, ...] = ()
    opened: bool = False
    listed: bool = False
    label: str | None = None
    most: int = MOST_ROWS
    ranks: tuple[Rank, Rank] = (Rank.TOLD, Rank.TOLD)


@dataclass(frozen=True)
class Card:
    """One figure of the overview."""

    title: str
    figure: str
    detail: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Cells:
    """The table of all cells; its last column are remarks, which HTML shows below each row.

    narrowed: columns with a filter. ranks: of each row, the lowest is kept longest.
    """

    table: Table
    narrowed: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def filters(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Columns with a filter, each with its choices."""
        rows = self.table.rows
        return tuple((column, tuple(dict.fromkeys(str(row[column]) for row in rows))) for column in self.narrowed)


@dataclass(frozen=True)
class Section:
    """A chapter or a part of one. summary: on top. notes: at the end. wide: wide charts. most: findings in text."""

    id: str
    title: str
    summary: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    findings: tuple[Finding, ...] = ()
    parts: tuple["Section", ...] = ()
    notes: tuple[str, ...] = ()
    wide: bool = False
    most: int = MOST_ROWS

    def table(self, name: str) -> Table | None:
        """The table of that name."""
        return next((table for table in self.tables if table.name == name), None)

    @property
    def own_tables(self) -> tuple[Table, ...]:
        """Tables without a chart."""
        drawn = {chart.table for chart in self.charts}
        return tuple(table for table in self.tables if not table.name or table.name not in drawn)


Chapter = Callable[[Report], Section | None]
"""Makes the section of a report; None if the run has nothing for it."""


def shown(chapter: Chapter, *, tables: Sequence[str] | None = None, findings: bool = True) -> Chapter:
    """A chapter with some of its content. tables: names of those to keep, None for all."""

    def chosen(report: Report) -> Section | None:
        section = chapter(report)
        if section is None:
            return None
        kept = section.tables if tables is None else tuple(one for one in section.tables if one.name in tables)
        return replace(section, tables=kept, findings=section.findings if findings else ())

    return chosen


def texts(*titles: str, priority: int = 0) -> tuple[Column, ...]:
    """Columns of words."""
    return tuple(Column(title, priority=priority) for title in titles)


def numbers(*titles: str, priority: int = 0) -> tuple[Column, ...]:
    """Columns of numbers."""
    return tuple(Column(title, number=True, priority=priority) for title in titles)


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[tuple[Entry, ...]],
    note: str = "",
    *,
    elsewhere: str = "report.json",
    name: str = "",
) -> Table:
    """A table with all rows, which formats may shorten."""
    more = f"{{}} more rows are in {elsewhere}."
    return Table(caption, tuple(columns), tuple(rows), note, more=more, name=name)


def ranked(
    whole: Table,
    narrowed: tuple[int, ...],
    found: Sequence[tuple[int, Callable[[], tuple[Entry, ...]]]],
    constant: Collection[str] = (),
) -> Cells:
    """The table with at most MOST_CELLS rows, those of the lowest ranks. found: (rank, function making a row).

    constant: columns to exclude where all rows have the same entry.
    """
    kept = sorted(found, key=itemgetter(0)) if len(found) > MOST_CELLS else found
    kept = kept[:MOST_CELLS]
    rows = tuple(make() for _, make in kept)
    made = filled(replace(whole, rows=rows, beyond=len(found) - len(kept)), constant, always=(len(whole.columns) - 1,))
    places = [made.columns.index(column) for place in narrowed if (column := whole.columns[place]) in made.columns]
    return Cells(made, tuple(places), tuple(rank for rank, _ in kept))


def drawn(*found: tuple[Chart, Table] | None) -> tuple[tuple[Chart, ...], tuple[Table, ...]]:
    """The charts that have something to draw, and their tables."""
    known = [one for one in found if one is not None and one[0].plots]
    return tuple(chart for chart, _ in known), tuple(of for _, of in known)


def filled(whole: Table, constant: Collection[str] = (), always: Sequence[int] = ()) -> Table:
    """The table without empty columns. constant: titles of columns that need two entries. always: columns to keep."""
    found = [{str(row[place]) for row in whole.rows} - EMPTY for place in range(len(whole.columns))]
    informative = (place for place, of in enumerate(found) if len(of) > (whole.columns[place].title in constant))
    kept = sorted({*informative, *always})
    if not whole.rows or len(kept) == len(whole.columns):
        return whole
    rows = tuple(tuple(row[place] for place in kept) for row in whole.rows)
    return replace(whole, columns=tuple(whole.columns[place] for place in kept), rows=rows)


def shortened(whole: Table, most: int) -> Table:
    """The table with its first `most` rows."""
    left_out = len(whole.rows) - most
    return whole if left_out <= 0 else replace(whole, rows=whole.rows[:most], beyond=whole.beyond + left_out)
