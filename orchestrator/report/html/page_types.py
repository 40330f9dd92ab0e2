"""What a page is made of, as types: the templates and the script know nothing of a Report.

Page ── Section ── Table, Chart (each with the Table that says the same), Finding
└── Plot: what the script draws; of several, the reader chooses one
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from orchestrator.report.html.plots import Kind, Plot

MOST_ROWS: Final = 500
"""Of a table that says the same as a chart."""


class Tone(StrEnum):
    """How something is to be taken. It is always said in words as well."""

    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True)
class Badge:
    """A word that stands out."""

    text: str
    tone: Tone


@dataclass(frozen=True)
class Card:
    """One figure of the overview. detail: what else to know of it."""

    title: str
    figure: str
    detail: str = ""
    tone: Tone = Tone.PLAIN


Entry = str | Badge


def said(entry: Entry) -> str:
    """What stands in a field of a table, as text."""
    return entry.text if isinstance(entry, Badge) else entry


@dataclass(frozen=True)
class Column:
    """number: aligned and sorted as such."""

    title: str
    number: bool = False


@dataclass(frozen=True)
class Table:
    """caption: what it is, for those who do not see what stands around it. words: what to know of it.

    beyond: rows that are not in it; more: where they are, in words with a place for their number.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    words: str = ""
    beyond: int = 0
    more: str = "{} more rows are in report.json."

    @property
    def note(self) -> str:
        """What stands below it."""
        return " ".join(filter(None, (self.words, self.more.format(self.beyond) if self.beyond else "")))


@dataclass(frozen=True)
class Chart:
    """A chart, and a table that says the same. empty: why there is nothing to draw, in place of both.

    choice: what a reader chooses between, where there are several plots. left_out: what the table alone has, in words.
    """

    id: str
    title: str
    kind: Kind
    says: str
    plots: tuple[Plot, ...] = ()
    table: Table | None = None
    empty: str = ""
    choice: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class Finding:
    """Something that somebody should read. lines: what else is said of it; logs: (title, lines as they were).

    opened: its lines are shown at once, for others only when somebody asks for them.
    """

    badge: Badge | None
    title: str
    lines: tuple[str, ...] = ()
    logs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    opened: bool = False


@dataclass(frozen=True)
class Section:
    """A chapter of the page. words: what to know first. wide: its charts take the whole width.

    tables_first: before the charts, because they are the answer.
    """

    id: str
    title: str
    words: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    findings: tuple[Finding, ...] = ()
    wide: bool = False
    tables_first: bool = False


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
        return tuple((column, tuple(dict.fromkeys(said(row[column]) for row in rows))) for column in self.narrowed)


@dataclass(frozen=True)
class Page:
    """All of it. facts: what was run, where and on what. file_name: of the cells, exported.

    elsewhere: where there is what the page has no room for.
    """

    title: str
    heading: str
    verdict: Badge
    meaning: str
    reasons: tuple[str, ...]
    notices: tuple[str, ...]
    elsewhere: str
    facts_title: str
    facts: tuple[tuple[str, str], ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    cells: Cells
    file_name: str
    footer: str


def texts(*titles: str) -> tuple[Column, ...]:
    """Columns of words."""
    return tuple(Column(title) for title in titles)


def numbers(*titles: str) -> tuple[Column, ...]:
    """Columns of numbers."""
    return tuple(Column(title, number=True) for title in titles)


def table(
    caption: str,
    columns: tuple[Column, ...],
    rows: Sequence[tuple[Entry, ...]],
    note: str = "",
    elsewhere: str = "report.json",
) -> Table:
    """A table of at most MOST_ROWS rows."""
    whole = Table(caption, columns, tuple(rows), note, more=f"{{}} more rows are in {elsewhere}.")
    return shortened(whole, MOST_ROWS)


def shortened(one: Table, most: int) -> Table:
    """The table with its first rows alone, at most so many."""
    left_out = len(one.rows) - most
    return one if left_out <= 0 else replace(one, rows=one.rows[:most], beyond=one.beyond + left_out)
