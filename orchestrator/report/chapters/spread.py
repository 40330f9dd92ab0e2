"""Identical devices compared: the spread of each cell, then the devices that differ from the median.

Cell                     GPU 0 GPU 1 GPU 2 GPU 3        percent of the median speed, "." within 1 % of it
resnet50 train fp32 b8       .     .  96.1     .
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.figures.comparisons import FullNode, Spread, SpreadValue
from orchestrator.figures.report import Report
from orchestrator.figures.table import UNITS
from orchestrator.report.charts import Box, Heat, Kind
from orchestrator.report.device_labels import by_uuid
from orchestrator.report.numbers import share, unit
from orchestrator.report.remarks import SHORT
from orchestrator.report.sections import Chart, Finding, Section, Table, numbers, table, texts
from orchestrator.stats.siblings import SiblingVerdict

SIMILAR_PERCENT: Final = 1.0
"""Deviation from the median that is not listed: the interval target of the standard profile."""
SHOWN_NOTES: Final = 6
SHOWN_CELLS: Final = 3
MOST_CELLS: Final = 60
"""In the heat map, those with the largest spread."""
STANDS_OUT_PERCENT: Final = 3.0
"""Slowness below the median that is marked without a verdict."""
LOAD: Final = "model_load_time_ms"
_PHASES: Final = {"inference": "infer", "training": "train", "generation": "write"}
NOT_COMPARABLE: Final = ("n/c", "not comparable")
_FREQUENT: Final = "not steady"
"""A frequent note, sorted last."""
_OF_VERDICTS: Final = "A frame marks the devices that are called STRAGGLER or SUSPECT"
_OF_FIGURES: Final = f"is slower than the median by more than {STANDS_OUT_PERCENT:g} %"


def spread(report: Report) -> Section:
    """Tables "spread" and "differing" for each group of identical devices, and "percent", the chart's, for all."""
    names = by_uuid(report)
    tables, plots, rows = [], [], []
    doubts: list[str] = []
    judged: set[bool] = set()
    for spreads in _by_devices(report.cross_gpu):
        cells = dict(zip(_cell_names(spreads), spreads, strict=True))
        differing = _differing(cells, names)
        near = f"In every cell each device is within {SIMILAR_PERCENT:g}% of the median."
        tables += [_spread(cells, names, "" if differing.rows else near), differing]
        drawn = sorted(cells.items(), key=lambda item: -(item[1].spread_percent or 0.0))[:MOST_CELLS]
        flagged = _flagged(report, spreads[0])
        plots.append(_heat(drawn, names, flagged))
        judged.add(flagged is not None)
        rows += [_percents(cell, one, names) for cell, one in cells.items()]
        doubts += _notes(cells)
    header = (*texts("Cell"), *numbers("Median", "Spread", *names.values()))
    chart = Chart(
        "spread",
        "Each cell on identical devices",
        Kind.HEAT,
        f"Percent of the median speed of the same cell: below 100 is slower. {_frames(judged)}; the cells with the "
        "largest spread come first.",
        tuple(plots),
        "percent",
        "" if plots else "No two devices of this run are identical, so there is nothing to hold side by side.",
        "Devices",
    )
    finding = Finding(None, "What to know before believing it", tuple(doubts), listed=True, most=SHOWN_NOTES)
    return Section(
        "spread",
        "Identical devices side by side",
        charts=(chart,),
        tables=(*tables, table("Percent of the median speed", header, rows, name="percent")),
        findings=(finding,) if doubts else (),
        wide=True,
    )


def _by_devices(spreads: Iterable[Spread]) -> Iterable[list[Spread]]:
    found: dict[tuple[str, ...], list[Spread]] = {}
    for one in spreads:
        found.setdefault(tuple(value.gpu_uuid for value in one.values), []).append(one)
    return found.values()


def _spread(cells: Mapping[str, Spread], names: Mapping[str, str], words: str) -> Table:
    first = next(iter(cells.values()))
    columns = (*texts("Cell"), *numbers("Median", "Spread"), *texts("Slowest", "Fastest"))
    rows = [(cell, *_row(one, names)) for cell, one in cells.items()]
    return table(f"{first.gpu_name}, {len(first.values)} devices", columns, rows, words, name="spread")


def _row(one: Spread, names: Mapping[str, str]) -> tuple[str, ...]:
    compared = {
        value.gpu_uuid: speed
        for value in one.values
        if (speed := _speed_percent(one, value)) is not None and value.not_comparable is None
    }
    if not compared:
        return (one.comparison, "", "", "")
    return (
        unit(one.median, UNITS[one.metric]),
        share(one.spread_percent),
        names[min(compared, key=compared.__getitem__)],
        names[max(compared, key=compared.__getitem__)],
    )


def _speed_percent(one: Spread, value: SpreadValue) -> float | None:
    """Percent of the median speed, None if unknown. Of a load time the longest is the slowest."""
    percent = value.percent_of_median
    if not percent:
        return None
    return 10_000 / percent if one.metric == LOAD else percent


def _differing(cells: Mapping[str, Spread], names: Mapping[str, str]) -> Table:
    uuids = [value.gpu_uuid for value in next(iter(cells.values())).values]
    entered = [(cell, *(_entry(one, value, _short) for value in one.values)) for cell, one in cells.items()]
    rows = [row for row in entered if {*row[1:]} != {"."}]
    entries = {entry for row in rows for entry in row[1:]}
    legend = (f"{short}: {meaning}" for short, meaning in (*SHORT.values(), NOT_COMPARABLE) if short in entries)
    left_out = len(cells) - len(rows)
    near = f"within {SIMILAR_PERCENT:g}%"
    said = f"; cells in which every device is that near are left out: {left_out}" if left_out else ""
    caption = f'Percent of the median speed (below 100 is slower, "." is {near}{said})'
    columns = (*texts("Cell"), *numbers(*(names[uuid] for uuid in uuids)))
    return Table(caption, columns, tuple(rows), "; ".join(legend), name="differing", framed=False)


def _entry(one: Spread, value: SpreadValue, written: Callable[[float], str]) -> str:
    speed = _speed_percent(one, value)
    return SHORT.get(value.status, NOT_COMPARABLE)[0] if speed is None else written(speed)


def _cell_names(spreads: Sequence[Spread]) -> Iterator[str]:
    """Distinct names of the cells, with input size and memory format where needed."""
    modes = {one.mode for one in spreads}
    named = [f"{cell_name(one)} {one.mode}" if len(modes) > 1 else cell_name(one) for one in spreads]
    common = Counter(named)
    for cell, one in zip(named, spreads, strict=True):
        size = "" if one.input_size is None else f" s{one.input_size}"
        layout = " channels_last" if one.memory_format == "channels_last" else ""
        yield cell if common[cell] == 1 else f"{cell}{size}{layout}"


def _notes(cells: Mapping[str, Spread]) -> Iterator[str]:
    """Each note once with its cells: first those about every cell, then by number of cells, rarest first."""
    about: dict[str, list[str]] = {}
    for cell, one in cells.items():
        for note in one.notes:
            about.setdefault(note, []).append(cell)

    def place(note: str) -> tuple[bool, bool, int]:
        return len(about[note]) < len(cells), note.startswith(_FREQUENT), len(about[note])

    for note in sorted(about, key=place):
        named = about[note]
        more = f" and {len(named) - SHOWN_CELLS} more" if len(named) > SHOWN_CELLS else ""
        yield note if len(named) == len(cells) else f"{', '.join(named[:SHOWN_CELLS])}{more}: {note}"


def _frames(judged: set[bool]) -> str:
    """The meaning of a frame. judged: whether each group of identical devices has verdicts."""
    if True not in judged:
        return f"A frame marks what {_OF_FIGURES}"
    return f"{_OF_VERDICTS}; among devices without a verdict, what {_OF_FIGURES}" if False in judged else _OF_VERDICTS


def _flagged(report: Report, one: Spread) -> set[str] | None:
    """Devices of a group that are STRAGGLER or SUSPECT; None if the group has no verdict."""
    group = {value.gpu_uuid for value in one.values}
    told = {each.gpu_uuid: each.verdict for each in report.stragglers if each.gpu_uuid in group}
    if {*told.values()} <= {SiblingVerdict.NONE}:
        return None
    return {uuid for uuid, verdict in told.items() if verdict in (SiblingVerdict.STRAGGLER, SiblingVerdict.SUSPECT)}


def _heat(cells: Sequence[tuple[str, Spread]], names: Mapping[str, str], flagged: set[str] | None) -> Heat:
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
    speed = _speed_percent(one, value)
    if speed is None:
        short, meaning = SHORT.get(value.status, NOT_COMPARABLE)
        return Box(column, row, None, short, f"{what}: {value.not_comparable or meaning}")
    why = f"; {value.not_comparable}" if value.not_comparable else ""
    says = f"{what}: {speed:.1f} % of the median speed ({unit(value.value, UNITS[one.metric])}{why})"
    return Box(column, row, speed, _short(speed), says, marked=speed < 100 - STANDS_OUT_PERCENT)


def _short(speed: float) -> str:
    return "." if abs(speed - 100) <= SIMILAR_PERCENT else f"{speed:.1f}"


def _percents(cell: str, one: Spread, names: Mapping[str, str]) -> tuple[str, ...]:
    entered = {value.gpu_uuid: _entry(one, value, "{:.1f}".format) for value in one.values}
    of_devices = (entered.get(uuid, "") for uuid in names)
    return (cell, unit(one.median, UNITS[one.metric]), share(one.spread_percent), *of_devices)


def cell_name(one: Spread | FullNode) -> str:
    """A cell in short: "resnet50 train fp32 b8"."""
    batch = "" if one.phase in ("load", "probe") else f" b{one.batch_size_requested}"
    phase = "" if one.phase == "probe" else f" {_PHASES.get(one.phase, one.phase)}"
    return f"{one.model_name}{phase} {one.precision}{batch}"
