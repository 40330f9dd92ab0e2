"""A report as a tree of sections. A chapter makes sections of a Report once, and every format renders the same types.

Section ── summary, Chart (names the Table that says the same), Table, Finding, parts (sections within it)

Text and Markdown show no charts. What a narrow format drops is said here: columns by their priority, details and
logs of findings that are not opened, and, where all has to fit on one page, paragraphs by their rank.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.report.charts import Kind, Plot

MOST_ROWS: Final = 500
"""Of a table in HTML."""
MOST_CELLS: Final = 1500
"""Rows of the table of all cells: what a reader scrolls through, and most pages have room for."""


SHOWN_REASONS: Final = 3
"""Of one verdict, where a report has to fit on a page."""


class Tone(enum.StrEnum):
    """How something is to be taken. It is always said in words as well."""

    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


class Rank(enum.IntEnum):
    """How much of a paragraph has to be on a page that has no room for all of them."""

    MUST = 0
    """All of it."""
    GRAVEST = 1
    """Its first line, and all of it before more than a line of any other paragraph."""
    TOLD = 2
    """A line, if what must be there leaves any."""
    MORE = 3
    """A line, if there is room for all that is graver."""


@dataclass(frozen=True)
class Badge:
    """A word that stands out."""

    text: str
    tone: Tone

    def __str__(self) -> str:
        return self.text


Entry = str | Badge


@dataclass(frozen=True)
class Column:
    """number: aligned and sorted as such. priority: of those that do not fit, the highest is dropped first.

    A column of priority 0 is never dropped. listed: where it is dropped, its entries stand below the table, each once.
    least: characters that it takes in text.
    """

    title: str
    number: bool = False
    priority: int = 0
    listed: bool = False
    least: int = 0


@dataclass(frozen=True)
class Table:
    """caption: what it is. words: what to know of it. name: by which a format chooses it.

    beyond: rows that are not in it; more: where they are, in words with a place for their number.
    framed: in text; an unframed table is continued below with its first column where it is too wide.
    most: rows that text shows. remarks: paragraphs on single rows or columns, below the table.
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
        """What stands below it."""
        return " ".join(filter(None, (self.words, self.more.format(self.beyond) if self.beyond else "")))


@dataclass(frozen=True)
class Chart:
    """A chart, and the table that says the same. empty: why there is nothing to draw, in place of both.

    choice: what a reader chooses between, where there are several plots. left_out: what the table alone has, in words.
    table: the name of one of its section.
    """

    id: str
    title: str
    kind: Kind
    says: str
    plots: tuple[Plot, ...] = ()
    table: str = ""
    empty: str = ""
    choice: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class Log:
    """Lines of a file, as they were. end: a narrow format shows the last of them, not the first."""

    title: str
    lines: tuple[str, ...]
    end: bool = False


@dataclass(frozen=True)
class Finding:
    """Something that somebody should read: lines, then details, then logs.

    opened: all of it is shown at once; of others text shows the lines alone. listed: its lines are items of a list.
    label: stands before each line in text, in place of the title. most: lines that text shows where room is short.
    ranks: of its first line, and of the others.
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
    """One figure of the overview. detail: what else to know of it."""

    title: str
    figure: str
    detail: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Cells:
    """The table of all cells. narrowed: columns that a reader chooses by. ranks: of each row, the lowest first.

    Its last column are remarks. The page shows each on a line of its own below its row, to be read at any width.
    """

    table: Table
    narrowed: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def filters(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Those columns, each with what may be chosen."""
        rows = self.table.rows
        return tuple((column, tuple(dict.fromkeys(str(row[column]) for row in rows))) for column in self.narrowed)


@dataclass(frozen=True)
class Section:
    """A chapter, or a part of one. summary: what to know first. notes: what to know last. most: findings in text.

    wide: its charts in HTML take the whole width.
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
        """The table of that name."""
        return next((table for table in self.tables if table.name == name), None)

    @property
    def own_tables(self) -> tuple[Table, ...]:
        """Those that no chart of the section names."""
        drawn = {chart.table for chart in self.charts}
        return tuple(table for table in self.tables if not table.name or table.name not in drawn)


Chapter = Callable[[Report], Section | None]
"""None where a run has nothing of it."""


def shown(chapter: Chapter, *, tables: Sequence[str] | None = None, findings: bool = True) -> Chapter:
    """A chapter as a format shows it. tables: the names of those that it has; None for all."""

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
    """A table with all its rows; formats cut it."""
    more = f"{{}} more rows are in {elsewhere}."
    return Table(caption, tuple(columns), tuple(rows), note, more=more, name=name)


def ranked(
    whole: Table, narrowed: tuple[int, ...], found: Sequence[tuple[int, Callable[[], tuple[Entry, ...]]]]
) -> Cells:
    """The table with the rows that are found, each with its rank. Of too many, the lowest ranks are made."""
    kept = sorted(found, key=itemgetter(0)) if len(found) > MOST_CELLS else found
    kept = kept[:MOST_CELLS]
    rows = tuple(make() for _, make in kept)
    return Cells(replace(whole, rows=rows, beyond=len(found) - len(kept)), narrowed, tuple(rank for rank, _ in kept))


def shortened(one: Table, most: int) -> Table:
    """The table with its first rows alone, at most so many."""
    left_out = len(one.rows) - most
    return one if left_out <= 0 else replace(one, rows=one.rows[:most], beyond=one.beyond + left_out)
