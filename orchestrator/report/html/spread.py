"""Identical devices side by side: a field for each cell and device, in percent of the median speed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.config.presets import TRIAGE
from orchestrator.figures.comparisons import FullNode, Spread, SpreadValue
from orchestrator.figures.report import Report
from orchestrator.report.html.page_types import (
    Badge,
    Chart,
    Entry,
    Finding,
    Section,
    Table,
    Tone,
    numbers,
    table,
    texts,
)
from orchestrator.report.html.plots import Box, Heat, Kind
from orchestrator.report.numbers import NOT_AVAILABLE, share, unit
from orchestrator.report.text_gpus import label
from orchestrator.report.text_remarks import SHORT
from orchestrator.report.text_spread import (
    NOT_COMPARABLE,
    SIMILAR_PERCENT,
    UNITS,
    by_devices,
    cell_names,
    notes,
    speed_percent,
)
from orchestrator.report.text_stragglers import MEANS_OF_LAUNCHES
from orchestrator.stats.siblings import SiblingVerdict

MOST_CELLS: Final = 60
"""In the heat map, those with the largest spread."""
STANDS_OUT_PERCENT: Final = 3.0
"""By which a device must be slower than the median to be marked, where there are no verdicts."""
MOST_NOTES: Final = 20
_OF_VERDICTS: Final = "A frame marks the devices that are called STRAGGLER or SUSPECT"
_OF_FIGURES: Final = f"is slower than the median by more than {STANDS_OUT_PERCENT:g} %"
_TONES: Final = {
    SiblingVerdict.OK: Tone.GOOD,
    SiblingVerdict.SUSPECT: Tone.WARN,
    SiblingVerdict.STRAGGLER: Tone.BAD,
    SiblingVerdict.NONE: Tone.QUIET,
}


def spread(report: Report) -> Section:
    """The chapter; a run without identical devices has an empty chart that says so."""
    plots, rows = [], []
    words: list[str] = []
    judged: set[bool] = set()
    names = {device.gpu_uuid: label(device) for device in report.gpu_info}
    for spreads in by_devices(report.cross_gpu):
        cells = dict(zip(cell_names(spreads), spreads, strict=True))
        shown = sorted(cells.items(), key=lambda item: -(item[1].spread_percent or 0.0))[:MOST_CELLS]
        flagged = _flagged(report, spreads[0])
        plots.append(_heat(shown, names, flagged))
        judged.add(flagged is not None)
        rows += [_row(cell, one, names) for cell, one in cells.items()]
        words += notes(cells)
    header = (*texts("Cell"), *numbers("Median", "Spread", *names.values()))
    chart = Chart(
        "spread",
        "Each cell on identical devices",
        Kind.HEAT,
        f"Percent of the median speed of the same cell: below 100 is slower. {_legend(judged)}; the cells with the "
        "largest spread come first.",
        tuple(plots),
        table("Percent of the median speed", header, rows),
        "" if plots else "No two devices of this run are identical, so there is nothing to hold side by side.",
        "Devices",
    )
    doubts = [Finding(None, "What to know before believing it", tuple(words[:MOST_NOTES]))] if words else []
    return Section(
        "spread",
        "Identical devices side by side",
        charts=(chart,),
        tables=tuple(_standings(report, names)),
        findings=tuple(doubts),
        wide=True,
        tables_first=report.test_configuration.preset == TRIAGE,
    )


def _legend(judged: set[bool]) -> str:
    """What a frame means. judged: for each group of identical devices, whether there are verdicts."""
    if True not in judged:
        return f"A frame marks what {_OF_FIGURES}"
    return f"{_OF_VERDICTS}; among devices without a verdict, what {_OF_FIGURES}" if False in judged else _OF_VERDICTS


def _flagged(report: Report, one: Spread) -> set[str] | None:
    """The devices of a group that are called STRAGGLER or SUSPECT; None where none of the group has a verdict."""
    group = {value.gpu_uuid for value in one.values}
    told = {each.gpu_uuid: each.verdict for each in report.stragglers if each.gpu_uuid in group}
    if {*told.values()} <= {SiblingVerdict.NONE}:
        return None
    return {uuid for uuid, verdict in told.items() if verdict in (SiblingVerdict.STRAGGLER, SiblingVerdict.SUSPECT)}


def _standings(report: Report, names: dict[str, str]) -> Iterator[Table]:
    """Whether each device is slower than its siblings; and what its cells lose where all devices are at work."""
    rows: list[tuple[Entry, ...]] = [
        (
            names[one.gpu_uuid],
            Badge(one.word, Tone.WARN if one.slowed else _TONES[one.verdict]),
            share(one.percent),
            NOT_AVAILABLE if one.low_percent is None else f"{share(one.low_percent)} to {share(one.high_percent)}",
            "; ".join(filter(None, (one.why, one.reason_text, one.next_step))),
        )
        for one in report.stragglers
    ]
    if len(rows) > 1 or (rows and report.test_configuration.preset == TRIAGE):
        columns = (
            *texts("Device", "Verdict"),
            *numbers("Of its siblings", "90% interval"),
            *texts("Why, and what next"),
        )
        yield table("Who is slower than its identical siblings", columns, rows)
    lost = sorted(report.full_node, key=lambda one: -(one.lost_percent or 0.0))
    if lost:
        columns = (*texts("Device", "Cell"), *numbers("Alone", "All at work", "Lost"), *texts("Remark"))
        yield table("What a full node loses", columns, [_lost(one, names) for one in lost], MEANS_OF_LAUNCHES)


def _lost(one: FullNode, names: dict[str, str]) -> tuple[str, ...]:
    units = UNITS[one.metric]
    figures = (unit(one.solo, units), unit(one.loaded, units), share(one.lost_percent))
    return (names[one.gpu_uuid], one.cell, *figures, one.remark)


def _heat(cells: Sequence[tuple[str, Spread]], names: dict[str, str], flagged: set[str] | None) -> Heat:
    columns = [value.gpu_uuid for value in cells[0][1].values]
    boxes = tuple(
        _box(columns.index(value.gpu_uuid), row, f"{cell} on {names[value.gpu_uuid]}", one, value)
        for row, (cell, one) in enumerate(cells)
        for value in one.values
    )
    if flagged is not None:
        boxes = tuple(replace(box, marked=box.value is not None and columns[box.column] in flagged) for box in boxes)
    title = f"{cells[0][1].gpu_name}, {len(columns)} devices"
    return Heat(title, tuple(names[uuid] for uuid in columns), tuple(cell for cell, _ in cells), boxes, around=100.0)


def _box(column: int, row: int, what: str, one: Spread, value: SpreadValue) -> Box:
    speed = speed_percent(one, value)
    if speed is None:
        short, meaning = SHORT.get(value.status, NOT_COMPARABLE)
        return Box(column, row, None, short, f"{what}: {value.not_comparable or meaning}")
    why = f"; {value.not_comparable}" if value.not_comparable else ""
    says = f"{what}: {speed:.1f} % of the median speed ({unit(value.value, UNITS[one.metric])}{why})"
    return Box(column, row, speed, _short(speed), says, marked=speed < 100 - STANDS_OUT_PERCENT)


def _short(speed: float) -> str:
    return "." if abs(speed - 100) <= SIMILAR_PERCENT else f"{speed:.1f}"


def _row(cell: str, one: Spread, names: dict[str, str]) -> tuple[str, ...]:
    entered = dict(_entries(one))
    of_devices = (entered.get(uuid, "") for uuid in names)
    return (cell, unit(one.median, UNITS[one.metric]), share(one.spread_percent), *of_devices)


def _entries(one: Spread) -> Iterator[tuple[str, str]]:
    for value in one.values:
        speed = speed_percent(one, value)
        yield value.gpu_uuid, SHORT.get(value.status, NOT_COMPARABLE)[0] if speed is None else f"{speed:.1f}"
