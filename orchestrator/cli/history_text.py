"""The history as text: one line for each run, one run in full, and a trend as a bar plot."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.cli.program import table
from orchestrator.config.naming import plural
from orchestrator.figures import keys
from orchestrator.history import wording
from orchestrator.history.records import CellRecord, DeviceRecord, RunLine, RunRecord
from orchestrator.history.trend import Trend, TrendPoint
from orchestrator.report.numbers import duration
from orchestrator.report.text import cut
from orchestrator.system.plain_text import plain

BAR: Final = 24
NAME_WIDTH: Final = 28
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


def lines(runs: Sequence[RunLine]) -> str:
    """Return a table with one line for each run, or for none "No such run is recorded."."""
    if not runs:
        return "No such run is recorded."
    header = ("Run", "Host", "Devices", "Profile", "Verdict", "Health", "Burn-in", "Cells")
    return table(header, [tuple(cut(text, NAME_WIDTH) for text in _row(run)) for run in runs])


def _row(run: RunLine) -> tuple[str, ...]:
    verdict = f"{run.verdict}{', tainted' if run.tainted else ''}"
    host, devices = run.hostname.partition(".")[0], ", ".join(run.devices)
    return (run.run_id, host, devices, run.profile, verdict, run.health, run.burn_in, f"{run.ok} of {run.planned}")


def in_full(record: RunRecord) -> str:
    """Return a text on a recorded run: its facts, its devices, and the main figure of each cell."""
    run = record.run
    tainted = "; tainted: faults were injected on purpose" if run.tainted else ""
    ended = "" if run.finished else "; it did not reach its end"
    head = {
        "Run": run.run_id,
        "Started": run.test_date,
        "Folder": run.folder,
        "Took": duration(run.seconds),
        "Verdict": f"{run.verdict}, exit code {run.exit_code}{ended}{tainted}",
        "Profile": run.profile,
        "Health": run.health,
        "Burn-in": run.burn_in,
        "Cells": f"{run.ok} of {run.planned} ok",
        "Stack": ", ".join(f"{name} {value}" for name, value in run.stack.items()),
    }
    summary = [f"{name:8}  {plain(value)}" for name, value in head.items() if value]
    devices = [line for judged in record.devices for line in _device(judged)]
    if not record.cells:
        why = "the cells of a burn-in are checks. Its report lists them." if run.burn_in else "no cell has any."
        return "\n".join((*summary, "", *devices, "", f"No figures: {why}"))
    labels = {judged.device.gpu_uuid: judged.device.label for judged in record.devices}
    header = ("GPU", "Cell", "Figure", "Value", "Launches", "Remark")
    names = keys.names(cell.key for cell in record.cells)
    cells = [_cell(cell, labels[cell.gpu_uuid], names[cell.key]) for cell in record.cells]
    return "\n".join((*summary, "", *devices, "", table(header, cells, numbers=frozenset({3, 4}))))


def _device(judged: DeviceRecord) -> Iterator[str]:
    device = judged.device
    yield plain(f"{device.label}: {device.gpu_name} ({device.gpu_uuid})")
    for what, verdict, words in (
        ("health", judged.health, judged.health_words),
        ("burn-in", judged.burn_in, judged.burn_in_words),
    ):
        if verdict:
            yield f"    {what} {verdict}{f': {plain(words)}' if words else ''}"


def _cell(cell: CellRecord, label: str, name: str) -> tuple[str, ...]:
    value = cell.figures.get(cell.metric)
    shown = "" if value is None else wording.figure(value)
    return tuple(map(plain, (label, name, cell.metric, shown, str(len(cell.launches)), cell.doubt)))


def plots(trends: Sequence[Trend], *, ascii_only: bool) -> str:
    """Return a bar plot of each trend: the results over time of a cell on a device."""
    return "\n".join(line for trend in trends for line in (*_trend(trend, ascii_only=ascii_only), "")).rstrip("\n")


def _trend(trend: Trend, *, ascii_only: bool) -> Iterator[str]:
    title = f"{wording.cell(trend)} on {wording.device(trend)}"
    yield plain(f"{title}: {trend.figure} of {plural(len(trend.points), 'run')}")
    measured = [point for point in trend.points if point.value is not None]
    # An excluded run, such as a throttled one, would make the others look alike.
    counted_runs = [point for point in measured if not point.excluded] or measured
    values = [point.value for point in counted_runs if point.value is not None]
    longest = max(values)
    beyond = " (an arrow: the value is larger)" if any((point.value or 0.0) > longest for point in measured) else ""
    for point in trend.points:
        shown = "-" if point.value is None else wording.figure(point.value)
        bar = _bar((point.value or 0.0) / (longest or 1.0), ascii_only=ascii_only)
        yield f"  {plain(point.run_id):22}  {shown:>10}  {bar}  {plain('; '.join(_marks(point)))}".rstrip()
    judged = wording.unjudged(trend) or f"changes beyond {trend.margin_percent:g} %"
    yield f"  bars from 0 to {wording.figure(longest)}{beyond}; {judged}"


def _bar(share: float, *, ascii_only: bool) -> str:
    if share > 1:
        return f"{('#' if ascii_only else '█') * (BAR - 1)}{'>' if ascii_only else '▶'}"
    share = max(share, 0.0)
    if ascii_only:
        return ("#" * round(share * BAR)).ljust(BAR)
    eighths = round(share * BAR * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(BAR)


def _marks(point: TrendPoint) -> Iterator[str]:
    if change := wording.change(point):
        yield f"<< {change} from here on"
    yield from wording.remarks(point)
