"""Trends as one HTML file: a chart for each cell, those with changes first.

A chart shows a figure of the cell over many runs, one line for each device.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.history import wording
from orchestrator.history.trend import Trend, TrendPoint
from orchestrator.report.charts.types import Kind, OfRun, OverRuns
from orchestrator.report.html.render import Page
from orchestrator.report.html.size_limit import fitted
from orchestrator.report.sections import (
    Badge,
    Card,
    Cells,
    Chart,
    Entry,
    Section,
    Table,
    Tone,
    drawn,
    numbers,
    ranked,
    texts,
)

MOST_SERIES: Final = 80
"""Most series (a cell on a device) in the charts, changed ones first."""
MOST_POINTS: Final = 2000
"""Most points in all charts together: more do not fit into 3 MB. Each series shows its newest runs."""
_ELSEWHERE: Final = "--format json"
_COLUMNS: Final = (
    *texts("Run", "Began", "Device", "Cell", "Figure"),
    *numbers("Value", "Change %"),
    *texts("Remarks"),
)
_FILTERED: Final = (2, 3)
_AXIS: Final = (
    "The axis does not begin at zero, so that differences are visible. A run that is not counted may lie outside the "
    "axis. It is then drawn at the edge."
)


def to_html(trends: Sequence[Trend], filters: Mapping[str, str]) -> bytes:
    """Return an HTML page about `trends`, which must not be empty. A page over 3 MB is shortened (size_limit.py).

    filters: name of each requested filter, such as "Batch size" → its value. The page shows them. "Model" is required.
    """
    return fitted(page(trends, filters), MOST_POINTS)


def page(trends: Sequence[Trend], filters: Mapping[str, str]) -> Page:
    """Return the page of `to_html` as data, before it is rendered or shortened to 3 MB.

    It has charts of at most MOST_SERIES trends, with at most MOST_POINTS points in all. trends: must not be empty.
    filters: name of each requested filter, such as "Batch size" → its value, to be shown. "Model" is required.
    """
    runs = sorted({(point.test_date, point.run_id) for trend in trends for point in trend.points})
    heading = f"{filters['Model']} over {plural(len(runs), 'run')}"
    found = [(trend, point) for trend in trends for point in trend.points if wording.change(point)]
    badge, meaning = _verdict(trends, len(found))
    return Page(
        title=f"{badge.text}: {heading}",
        heading=heading,
        verdict=badge,
        meaning=meaning,
        reasons=tuple(_tooltip(trend, point) for trend, point in sorted(found, key=lambda each: each[1].test_date)),
        notices=(),
        elsewhere=_ELSEWHERE,
        facts_title="Filters",
        facts=(*filters.items(), ("First run", _run_name(runs[0])), ("Last run", _run_name(runs[-1]))),
        cards=tuple(_cards(trends, runs, len(found))),
        sections=(_section(trends),),
        cells=_cells(trends),
        file_name="gpubench-trend.csv",
        footer=f"Made by gpubench from its history of runs. Every value is in {_ELSEWHERE}.",
    )


def _verdict(trends: Sequence[Trend], changes: int) -> tuple[Badge, str]:
    judged = sum(not wording.unjudged(trend) for trend in trends)
    of_all = f"{judged} of {plural(len(trends), 'series', 'series')}"
    if changes:
        return Badge(f"{plural(changes, 'CHANGE')}", Tone.WARN), f"The level of a figure changed; {of_all} were judged."
    if judged:
        tone = Tone.GOOD if judged == len(trends) else Tone.PLAIN
        return Badge("NO CHANGE FOUND", tone), f"None beyond the margins; {of_all} were judged."
    return Badge("NOT JUDGED", Tone.QUIET), _capitalised(dict.fromkeys(map(wording.unjudged, trends)))


def _capitalised(texts: Iterable[str]) -> str:
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in texts if text)


def _tooltip(trend: Trend, point: TrendPoint) -> str:
    with_it = f", with {'; '.join(point.stack)}" if point.stack else ""
    of = f"{trend.figure} of {wording.cell(trend)} on {wording.device(trend)}"
    return f"{wording.change(point)} from {point.test_date[:10]} (run {point.run_id}) on{with_it}: {of}"


def _run_name(run: tuple[str, str]) -> str:
    return f"{run[0]} ({run[1]})"


def _cards(trends: Sequence[Trend], runs: Sequence[tuple[str, str]], changes: int) -> Iterator[Card]:
    devices = set(map(wording.device, trends))
    yield Card("Runs", str(len(runs)), f"from {runs[0][0][:10]} to {runs[-1][0][:10]}")
    yield Card("Cells", str(len({trend.key for trend in trends})), f"on {plural(len(devices), 'device')}")
    not_counted = sum(bool(point.excluded) for trend in trends for point in trend.points)
    yield Card("Changes of a level", str(changes), tone=Tone.WARN if changes else Tone.PLAIN)
    yield Card("Not counted", str(not_counted), f"of {plural(sum(len(trend.points) for trend in trends), 'figure')}")


def _section(trends: Sequence[Trend]) -> Section:
    chosen = _changed_first(trends)[:MOST_SERIES]
    cells: dict[str, list[Trend]] = {}
    for trend in chosen:
        cells.setdefault(wording.cell(trend), []).append(trend)
    more = f"{len(trends) - len(chosen)} more series are in {_ELSEWHERE}." if len(trends) > len(chosen) else ""
    runs = MOST_POINTS // len(chosen)
    charts, tables = drawn(
        *(_chart(f"trend-{place}", cell, found, runs) for place, (cell, found) in enumerate(cells.items()))
    )
    return Section("trends", "Over the runs", tuple(filter(None, (_AXIS, more))), charts, tables, wide=True)


def _changed_first(trends: Sequence[Trend]) -> list[Trend]:
    changed = [trend for trend in trends if any(map(wording.change, trend.points))]
    cells = dict.fromkeys(map(wording.cell, (*changed, *trends)))
    order = {cell: place for place, cell in enumerate(cells)}
    return sorted(trends, key=lambda trend: (order[wording.cell(trend)], trend not in changed))


def _chart(name: str, cell: str, trends: Sequence[Trend], runs: int) -> tuple[Chart, Table]:
    figure, margin = trends[0].figure, trends[0].margin_percent
    whys = dict.fromkeys(map(wording.unjudged, trends))  # an empty one is that of a series that is judged
    marks = f"changes of the level beyond {margin:g} % are marked" if "" in whys else ""
    longest = max(len(trend.points) for trend in trends)
    cut = f"of {longest} runs, these are the last {runs}; all of them are in {_ELSEWHERE}" if longest > runs else ""
    header = (*texts("Run", "Began", "Device"), *numbers(figure, "Launches"), *texts("Change", "Remarks"))
    rows = [_row(trend, point) for trend in trends for point in trend.points[-runs:]]
    known = [trend for trend in trends if any(point.value is not None for point in trend.points[-runs:])]
    chart = Chart(
        name,
        cell,
        Kind.RUNS,
        f"{figure}. {_capitalised((marks, *whys, cut))}",
        tuple(OverRuns(wording.device(trend), tuple(_of_runs(trend.points[-runs:]))) for trend in known),
        name,
        choice="Device",
    )
    return chart, Table(f"{figure} of {cell}", header, tuple(rows), name=name)


def _row(trend: Trend, point: TrendPoint) -> tuple[Entry, ...]:
    changed = wording.change(point)
    return (
        point.run_id,
        point.test_date,
        wording.device(trend),
        _value(point),
        str(point.launches),
        Badge(changed, Tone.WARN) if changed else "",
        "; ".join(wording.remarks(point)),
    )


def _value(point: TrendPoint) -> str:
    return "" if point.value is None else wording.figure(point.value).replace(",", "")


def _of_runs(points: Sequence[TrendPoint]) -> Iterator[OfRun]:
    days = {point.test_date[:10] for point in points}
    length = len("2026-11-01" if len(days) == len(points) else "2026-11-01 21:30")
    for point in points:
        yield _of_run(point, point.test_date[:length].replace("T", " "))


def _of_run(point: TrendPoint, began: str) -> OfRun:
    change = wording.change(point)
    shown = "no figure" if point.value is None else wording.figure(point.value)
    launches = f"{shown}, of {plural(point.launches, 'launch', 'launches')}"
    level = f"the level changed by {change} from here on" if change else ""
    return OfRun(
        name=f"{point.run_id}, {point.test_date}",
        began=began,
        value=point.value,
        counted=not point.excluded,
        change=change,
        stack=bool(point.stack),
        says=tuple(filter(None, (launches, level, *wording.remarks(point)))),
    )


def _cells(trends: Sequence[Trend]) -> Cells:
    found = [(_rank(point), partial(_entry, trend, point)) for trend in trends for point in trend.points]
    more = f"{{}} more are in {_ELSEWHERE}. Runs with a change come first here."
    return ranked(Table("Every figure of every run", _COLUMNS, (), more=more), _FILTERED, found)


def _rank(point: TrendPoint) -> int:
    return 2 * (not wording.change(point)) + (not point.stack)


def _entry(trend: Trend, point: TrendPoint) -> tuple[Entry, ...]:
    percent = "" if point.change_percent is None else f"{point.change_percent:+.1f}"
    return (
        *(point.run_id, point.test_date, wording.device(trend), wording.cell(trend), trend.figure),
        *(_value(point), percent, "; ".join(wording.remarks(point))),
    )
