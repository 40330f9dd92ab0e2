"""Shortens a page until its file has at most 3 MB, as far as possible.

First the table of all cells loses its least important rows, then other tables, logs and the choices of charts.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from orchestrator.report.html.render import Page, bound
from orchestrator.report.sections import MOST_ROWS, Cells, Chart, Finding, Section, filled, shortened

MOST_BYTES: Final = 3_000_000
LEAST_CELLS: Final = 300
"""Rows of the table of all cells: before fewer are kept, other chapters are cut."""

_SHARE: Final = 0.95
"""Share of the rows that would fit if all were equally long. The important rows, which are kept, are longer."""


class _Room(NamedTuple):
    """Limits of one step of shortening: rows of each table, findings with logs in each chapter, plots of each chart."""

    rows: int
    logs: int
    plots: int


_STEPS: Final = (_Room(200, 20, 40), _Room(60, 5, 12), _Room(20, 1, 3))


def fitted(page: Page, rows: int = MOST_ROWS) -> bytes:
    """Return the page as HTML file, cut to MOST_BYTES if possible. Tables of sections have at most `rows` rows."""
    whole = (
        replace(section, tables=tuple(shortened(filled(of), rows) for of in section.tables))
        for section in page.sections
    )
    page = replace(page, sections=tuple(whole))
    for room in (None, *_STEPS):
        smaller = page if room is None else replace(page, sections=tuple(_section(one, room) for one in page.sections))
        made = bound(smaller)
        if len(made) <= MOST_BYTES:
            break
        found = _with_fewer_cells(smaller, len(made), 0 if room is _STEPS[-1] else LEAST_CELLS)
        if found is not None:
            return found
    return made


def _with_fewer_cells(page: Page, size: int, least: int) -> bytes | None:
    """Return the file with as many rows of cells as fit; None for fewer than `least`. size: bytes with all rows."""
    count = len(page.cells.table.rows)
    bare = bound(replace(page, cells=_few(page.cells, 0)))
    if len(bare) > MOST_BYTES:
        return None if least else bare
    most = int(_SHARE * count * (MOST_BYTES - len(bare)) / (size - len(bare)))
    while most >= min(count, least):
        made = bound(replace(page, cells=_few(page.cells, most)))
        if len(made) <= MOST_BYTES:
            return made
        most = int(_SHARE * most) if most > 1 else most - 1
    return None


def _few(cells: Cells, most: int) -> Cells:
    order = sorted(range(len(cells.ranks)), key=cells.ranks.__getitem__)
    rows = tuple(cells.table.rows[place] for place in order)
    ranks = tuple(cells.ranks[place] for place in order[:most])
    return replace(cells, table=shortened(replace(cells.table, rows=rows), most), ranks=ranks)


def _section(section: Section, room: _Room) -> Section:
    return replace(
        section,
        charts=tuple(_chart(chart, room) for chart in section.charts),
        tables=tuple(shortened(table, room.rows) for table in section.tables),
        findings=(*section.findings[: room.logs], *map(_without_logs, section.findings[room.logs :])),
    )


def _chart(chart: Chart, room: _Room) -> Chart:
    hidden = len(chart.plots) - room.plots
    more = f" Of {len(chart.plots)} charts the first {room.plots} are here." if hidden > 0 else ""
    return replace(chart, plots=chart.plots[: room.plots], says=f"{chart.says}{more}")


def _without_logs(finding: Finding) -> Finding:
    if not finding.logs:
        return finding
    return replace(finding, logs=(), lines=(*finding.lines, "There is no room for its logs on this page."))
