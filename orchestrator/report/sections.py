"""A report as a tree of sections. Chapters make sections from a Report, and every format renders the sections.

Section ── summary, Chart (names the Table with the same data), Table, Finding, parts (nested sections)

Text and Markdown show no charts, and details of a finding only if it is `opened`. Where text lacks room, it omits
columns by Column.priority and paragraphs by Rank.
"""

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.report.charts.types import Kind, Plot
from orchestrator.report.numbers import NOT_AVAILABLE

MOST_ROWS: Final = 500
"""Largest number of rows of a table in HTML."""
MOST_CELLS: Final = 1500
"""Largest number of rows of the table of all cells."""


EMPTY: Final = frozenset({"", NOT_AVAILABLE})
"""Entries of a table that say nothing: a column of them is omitted."""
SHOWN_REASONS: Final = 3
"""Largest number of reasons for a verdict on a one-page report."""


class Tone(enum.StrEnum):
    """The colour of a statement, by its gravity. QUIET is dimmed. The words of the statement say the same."""

    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


class Rank(enum.IntEnum):
    """Priority of a paragraph in a one-page report, the highest first: how much of it is shown if the page is full.

    MUST: all lines, always. GRAVEST: the first line always. Room that is left goes to the first line of each TOLD, then
    to the other lines of GRAVEST, then to the first line of each MORE, then to all others.
    """

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
    """A highlighted word or short text. tone: its colour."""

    text: str
    tone: Tone

    def __str__(self) -> str:
        return self.text


Entry = str | Badge


@dataclass(frozen=True)
class Column:
    """A column of a table. number: aligned and sorted as numbers. priority: the highest is dropped first, 0 never.

    listed: if the column is dropped, its entries are listed below the table. least: minimal width in text, in
    characters. short: title on a terminal. block: columns with the same name here stay side by side on a terminal, and
    move below the others if there is no room.
    """

    title: str
    number: bool = False
    priority: int = 0
    listed: bool = False
    least: int = 0
    short: str = ""
    block: str = ""


@dataclass(frozen=True)
class Table:
    """A table. caption: its title. words: note below it. beyond: number of omitted rows. name: key for charts, layouts.

    framed: text draws a frame, and drops columns by priority if the table is too wide. continued: without a frame, such
    columns continue below; if False, they are dropped, too. more: text on where the omitted rows are, with "{}" for
    their number. most: largest number of rows in text. remarks: paragraphs about single rows or columns.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    words: str = ""
    beyond: int = 0
    more: str = "{} more rows are in report.json."
    name: str = ""
    framed: bool = True
    continued: bool = True
    most: int = MOST_ROWS
    remarks: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Text below the table: `words`, and how many rows are omitted."""
        return " ".join(filter(None, (self.words, self.more.format(self.beyond) if self.beyond else "")))


@dataclass(frozen=True)
class Chart:
    """A chart of the data in the table named `table`. says: its description. not_shown: text on what it leaves out.

    id: of its HTML element. choice: what distinguishes the plots, such as "Batch"; the reader chooses one.
    """

    id: str
    title: str
    kind: Kind
    says: str
    plots: tuple[Plot, ...] = ()
    table: str = ""
    choice: str = ""
    not_shown: str = ""


@dataclass(frozen=True)
class Log:
    """Lines of a log file. end: a format with little room shows the last lines instead of the first."""

    title: str
    lines: tuple[str, ...]
    end: bool = False


@dataclass(frozen=True)
class Finding:
    """A statement: badge (if any) and title, then lines, details and logs that support it.

    opened: the text report shows details and logs, too. listed: lines are items of a list. label: if it is None, text
    and Markdown show badge and title above the lines. Else they omit both, and begin each line with the label; "": with
    nothing. most: largest number of lines in the text report. A one-page report ignores it if everything fits on the
    page. ranks: priority in a one-page report of the first line, and of the other lines.
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
    """A key figure of the run, shown in a box at the top of the page. detail: text below the figure, "" for none."""

    title: str
    figure: str
    detail: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Cells:
    """The table of all cells. Its last column has remarks, which HTML shows below each row.

    narrowed: indices of the columns with a filter. ranks: one for each row; rows of the lowest rank are kept longest.
    """

    table: Table
    narrowed: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def filters(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Columns with a filter: (index, values to choose from)."""
        rows = self.table.rows
        return tuple((column, tuple(dict.fromkeys(str(row[column]) for row in rows))) for column in self.narrowed)


@dataclass(frozen=True)
class Section:
    """A chapter or a part of one. summary: text at its top. notes: text at its end.

    id: of its HTML element. Some formats omit sections by it. wide: its charts take the whole width. most: largest
    number of findings in text.
    """

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
        """Return the table with that name; None if there is none."""
        return next((table for table in self.tables if table.name == name), None)

    @property
    def own_tables(self) -> tuple[Table, ...]:
        """Tables of the section that do not belong to a chart."""
        drawn = {chart.table for chart in self.charts}
        return tuple(table for table in self.tables if not table.name or table.name not in drawn)


Chapter = Callable[[Report], Section | None]
"""Function that makes a section of a report; it returns None if the run has nothing for the section."""


def shown(chapter: Chapter, *, tables: Sequence[str] | None = None, findings: bool = True) -> Chapter:
    """Return `chapter` with only the given tables (names; None: all) and, if `findings` is False, without findings."""

    def chosen(report: Report) -> Section | None:
        section = chapter(report)
        if section is None:
            return None
        kept = section.tables if tables is None else tuple(one for one in section.tables if one.name in tables)
        return replace(section, tables=kept, findings=section.findings if findings else ())

    return chosen


def texts(*titles: str, priority: int = 0) -> tuple[Column, ...]:
    """Return columns of text with these titles. priority: see Column."""
    return tuple(Column(title, priority=priority) for title in titles)


def numbers(*titles: str, priority: int = 0) -> tuple[Column, ...]:
    """Return columns of numbers with these titles. priority: see Column."""
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
    """Return a table. note: text below it. elsewhere: file in which a reader finds the rows that a format omits.

    name: key by which charts and layouts find the table, or "".
    """
    more = f"{{}} more rows are in {elsewhere}."
    return Table(caption, tuple(columns), tuple(rows), note, more=more, name=name)


def ranked(
    whole: Table,
    narrowed: tuple[int, ...],
    rows: Sequence[tuple[int, Callable[[], tuple[Entry, ...]]]],
    constant: Collection[str] = (),
) -> Cells:
    """Return the table of all cells, without empty columns and with MOST_CELLS rows at most: those of lowest rank.

    whole: the table without rows. narrowed: indices of the columns with a filter. rows: for each cell (rank, function
    that makes the row), in order; sorted by rank if rows are omitted. constant: titles of columns to omit if all their
    entries not in EMPTY are equal.
    """
    kept = sorted(rows, key=itemgetter(0)) if len(rows) > MOST_CELLS else rows
    kept = kept[:MOST_CELLS]
    shown_rows = replace(whole, rows=tuple(make() for _, make in kept), beyond=len(rows) - len(kept))
    made = filled(shown_rows, constant, always=(len(whole.columns) - 1,))
    places = [made.columns.index(column) for place in narrowed if (column := whole.columns[place]) in made.columns]
    return Cells(made, tuple(places), tuple(rank for rank, _ in kept))


def drawn(*pairs: tuple[Chart, Table] | None) -> tuple[tuple[Chart, ...], tuple[Table, ...]]:
    """Return the charts of `pairs` that have plots, and their tables. Tables of charts without plots are dropped."""
    known = [one for one in pairs if one is not None and one[0].plots]
    return tuple(chart for chart, _ in known), tuple(of for _, of in known)


def filled(whole: Table, constant: Collection[str] = (), always: Sequence[int] = ()) -> Table:
    """Return the table without columns that have only EMPTY entries; without rows, the table is unchanged.

    constant: titles of columns to omit if all entries not in EMPTY are equal. always: indices of columns to keep.
    """
    found = [{str(row[place]) for row in whole.rows} - EMPTY for place in range(len(whole.columns))]
    informative = (place for place, of in enumerate(found) if len(of) > (whole.columns[place].title in constant))
    kept = sorted({*informative, *always})
    if not whole.rows or len(kept) == len(whole.columns):
        return whole
    rows = tuple(tuple(row[place] for place in kept) for row in whole.rows)
    return replace(whole, columns=tuple(whole.columns[place] for place in kept), rows=rows)


def shortened(whole: Table, most: int) -> Table:
    """Return the table with only its first `most` rows; the others are added to `beyond`."""
    hidden = len(whole.rows) - most
    return whole if hidden <= 0 else replace(whole, rows=whole.rows[:most], beyond=whole.beyond + hidden)
