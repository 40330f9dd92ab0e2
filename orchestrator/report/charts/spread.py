"""The chapter that compares identical devices cell by cell (model and configuration), each with the cell's median.

Cell                     GPU 0 GPU 1 GPU 2 GPU 3        percent of the median speed, "." within 1 % of it
resnet50 train fp32 b8       .     .  96.1     .
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.config.naming import plural
from orchestrator.figures.comparisons import FullNode, Spread, SpreadValue
from orchestrator.figures.parts import UNSTEADY
from orchestrator.figures.quality import Quality
from orchestrator.figures.report import Report
from orchestrator.figures.table import UNITS
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report.charts.types import Box, Heat, Kind
from orchestrator.report.device_labels import by_uuid
from orchestrator.report.lines import lines
from orchestrator.report.numbers import share, unit
from orchestrator.report.remarks import DOUBTS, SHORT
from orchestrator.report.sections import Chart, Finding, Section, Table, numbers, table, texts
from protocol.cell import Workload

SIMILAR_PERCENT: Final = 1.0
"""Deviation from the median, in percent, up to which speeds count as equal: the standard profile's interval target."""
SHOWN_NOTES: Final = 6
SHOWN_CELLS: Final = 3
MOST_CELLS: Final = 60
"""Largest number of cells in the heat map."""
LOAD: Final = "model_load_time_ms"
_PHASES: Final = {"inference": "infer", "training": "train", "generation": "write"}
NOT_COMPARABLE: Final = ("n/c", "not comparable")


class _Row(NamedTuple):
    """A row of the heat map. one: speeds of the devices. doubts: UUID → why the cell cannot judge this device."""

    cell: str
    one: Spread
    doubts: Mapping[str, Quality]


def spread(report: Report) -> Section | None:
    """Return how much identical devices differ in speed, cell by cell; None if the report compares no devices.

    A heat map for each group of identical devices shows the speeds in percent of the cell's median. The table "percent"
    has the same data. Each group also has a table "spread" (median, slowest and fastest device of each cell) and a
    table "differing" (cells in which a device is not within SIMILAR_PERCENT of the median, or has no speed).
    """
    if not report.cross_gpu:
        return None
    names = by_uuid(report)
    tables, plots, rows = [], [], []
    doubts: list[str] = []
    known = _qualities(report)
    slow = slow_devices(report)
    for spreads in _by_devices(report.cross_gpu):
        cells = dict(zip(_cell_names(spreads), spreads, strict=True))
        differing = _differing(cells, names)
        near = f"In every cell each device is within {SIMILAR_PERCENT:g}% of the median."
        tables += [_spread(cells, names, "" if differing.rows else near), differing]
        drawn = sorted((_Row(cell, one, _of_devices(one, known)) for cell, one in cells.items()), key=_place)
        plots.append(_heat(drawn[:MOST_CELLS], names, slow))
        rows += [_percents(cell, one, names) for cell, one in cells.items()]
        doubts += _notes(cells)
    header = (*texts("Cell"), *numbers("Median", "Spread", *names.values()))
    chart = Chart(
        "spread",
        "Each cell on identical devices",
        Kind.HEAT,
        'Speed in percent of the median; below 100 is slower; ".": within 1 %. Hatched: this cell does not judge the '
        "GPU (limited by the host, unsettled, noisy, or not comparable). Framed: a GPU with a verdict is slower here.",
        tuple(plots),
        "percent",
        "Devices",
    )
    finding = Finding(None, DOUBTS, tuple(doubts), listed=True, most=SHOWN_NOTES)
    return Section(
        "spread",
        "Devices side by side",
        charts=(chart,),
        tables=(*tables, table("Percent of the median speed", header, rows, name="percent")),
        findings=(finding,) if doubts else (),
        wide=True,
    )


def slow_devices(report: Report) -> dict[str, str]:
    """Return UUID → verdict of each slow or faulty device: "STRAGGLER", "BELOW BASELINE", "SPLIT", "FAIL".

    It is the verdict on the speed if that is a finding (SiblingVerdict.is_finding). Otherwise it is "FAIL", on the
    health. SPLIT: a minority of identical GPUs is faster than the rest, and it is unknown which speed is normal.
    """
    found = {standing.gpu_uuid: standing.verdict.value for standing in report.stragglers if standing.verdict.is_finding}
    faulty = [gpu.gpu_uuid for gpu in report.health.gpus if gpu.verdict is HealthVerdict.FAIL]
    return dict.fromkeys(faulty, HealthVerdict.FAIL.value) | found


def _qualities(report: Report) -> Mapping[tuple[object, ...], Quality]:
    """Return (UUID, *Line.cell) → quality of the result of this cell on this device.

    Model loading counts as host-bound, because the host does this work.
    """
    return {
        (line.entry.gpu_uuid, *line.cell): Quality.HOST_BOUND if line.entry.workload == Workload.LOAD else line.quality
        for line in lines(report)
    }


def _identity(spread: Spread) -> tuple[object, ...]:
    which = (spread.model_name, spread.phase, spread.precision, spread.mode, spread.batch_size_requested)
    return (*which, spread.input_size, spread.memory_format or None, spread.new_tokens, spread.compile_mode)


def _of_devices(spread: Spread, qualities: Mapping[tuple[object, ...], Quality]) -> Mapping[str, Quality]:
    """Return UUID → why the cell cannot judge this device, only for such devices. qualities: see _qualities.

    If the cell cannot judge half of its devices or more, it judges none: its other devices get the most common reason.
    """
    cell = _identity(spread)
    own = {value.gpu_uuid: qualities.get((value.gpu_uuid, *cell), Quality.OK) for value in spread.values}
    found = {uuid: each for uuid, each in own.items() if not each.judges_gpu}
    if len(found) * 2 < len(own):
        return found
    return dict.fromkeys(own, Counter(found.values()).most_common()[0][0]) | found


def _place(row: _Row) -> tuple[bool, float]:
    """Return the sort key of a row: cells that can judge a device come first, and among them larger deviations."""
    speeds = [speed_percent(row.one, value) for value in row.one.values if value.gpu_uuid not in row.doubts]
    away = [abs(speed - 100) for speed in speeds if speed is not None]
    return not away, -max(away, default=row.one.spread_percent or 0.0)


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


def _row(spread: Spread, names: Mapping[str, str]) -> tuple[str, ...]:
    compared = {
        value.gpu_uuid: speed
        for value in spread.values
        if (speed := speed_percent(spread, value)) is not None and value.not_comparable is None
    }
    if not compared:
        return (spread.comparison, "", "", "")
    return (
        unit(spread.median, UNITS[spread.metric]),
        share(spread.spread_percent),
        names[min(compared, key=compared.__getitem__)],
        names[max(compared, key=compared.__getitem__)],
    )


def speed_percent(spread: Spread, value: SpreadValue) -> float | None:
    """Return a device's speed in percent of the median speed of identical devices; None if it is unknown.

    The median is that of the devices that are compared. A device that is not compared has no speed, unless throttling
    is the reason. Above 100 is faster, also for model loading, whose figure is a time (a long time gives a low speed).
    """
    percent = value.percent_of_median
    if not percent:
        return None
    return 10_000 / percent if spread.metric == LOAD else percent


def _differing(cells: Mapping[str, Spread], names: Mapping[str, str]) -> Table:
    uuids = [value.gpu_uuid for value in next(iter(cells.values())).values]
    entered = [(cell, *(_entry(one, value, _short) for value in one.values)) for cell, one in cells.items()]
    rows = [row for row in entered if {*row[1:]} != {"."}]
    entries = {entry for row in rows for entry in row[1:]}
    legend = (f"{short}: {meaning}" for short, meaning in (*SHORT.values(), NOT_COMPARABLE) if short in entries)
    unseen = len(cells) - len(rows)
    near = f"within {SIMILAR_PERCENT:g}%"
    hidden = f"; {plural(unseen, 'cell')} not shown, because all devices are {near}" if unseen else ""
    caption = f'Percent of the median speed (below 100 is slower, "." is {near}{hidden})'
    columns = (*texts("Cell"), *numbers(*(names[uuid] for uuid in uuids)))
    return Table(caption, columns, tuple(rows), "; ".join(legend), name="differing", framed=False)


def _entry(spread: Spread, value: SpreadValue, written: Callable[[float], str]) -> str:
    speed = speed_percent(spread, value)
    return SHORT.get(value.status, NOT_COMPARABLE)[0] if speed is None else written(speed)


def _cell_names(spreads: Sequence[Spread]) -> Iterator[str]:
    modes = {one.mode for one in spreads}
    named = [f"{cell_name(one)} {one.mode}" if len(modes) > 1 else cell_name(one) for one in spreads]
    common = Counter(named)
    for cell, one in zip(named, spreads, strict=True):
        size = "" if one.input_size is None else f" s{one.input_size}"
        layout = " channels_last" if one.memory_format == "channels_last" else ""
        yield cell if common[cell] == 1 else f"{cell}{size}{layout}"


def _notes(cells: Mapping[str, Spread]) -> Iterator[str]:
    """Yield each note of the cells once, with the names of its cells: "resnet50 fp32 b8 and 2 more: NOTE".

    A note that all cells have comes first, without names. The others are ordered by the number of their cells, fewest
    first. The last text counts the unsteady cells: "not steady after warm-up: 5 of 42 cells: lstm fp32 b1 (GPU 3) and 4
    more". cells: cell name → its figures.
    """
    about: dict[str, list[str]] = {}
    unsteady: list[str] = []
    for cell, one in cells.items():
        for note in one.notes:
            if note.startswith(UNSTEADY):
                unsteady.append(f"{cell} ({note.removeprefix(f'{UNSTEADY}: ')})")
            else:
                about.setdefault(note, []).append(cell)
    for note in sorted(about, key=lambda note: (len(about[note]) < len(cells), len(about[note]))):
        named = about[note]
        yield note if len(named) == len(cells) else f"{_some(named)}: {note}"
    if unsteady:
        yield f"{UNSTEADY}: {len(unsteady)} of {plural(len(cells), 'cell')}: {_some(unsteady)}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_CELLS} more" if len(names) > SHOWN_CELLS else ""
    return f"{', '.join(names[:SHOWN_CELLS])}{more}"


def _heat(drawn: Sequence[_Row], names: Mapping[str, str], slow: Mapping[str, str]) -> Heat:
    first = drawn[0].one
    columns = [value.gpu_uuid for value in first.values]
    boxes = tuple(
        _box((columns.index(value.gpu_uuid), place), names, row, value, slow=value.gpu_uuid in slow)
        for place, row in enumerate(drawn)
        for value in row.one.values
    )
    title = f"{first.gpu_name}, {len(columns)} devices"
    heads = tuple(f"{names[uuid]}: {slow[uuid]}" if uuid in slow else names[uuid] for uuid in columns)
    return Heat(title, heads, tuple(row.cell for row in drawn), boxes, around=100.0)


def _box(at: tuple[int, int], names: Mapping[str, str], row: _Row, value: SpreadValue, *, slow: bool) -> Box:
    speed, doubt = speed_percent(row.one, value), row.doubts.get(value.gpu_uuid)
    what = f"{row.cell} on {names[value.gpu_uuid]}"
    if speed is None:
        short, meaning = SHORT.get(value.status, NOT_COMPARABLE)
        return Box(*at, None, short, f"{what}: {value.not_comparable or meaning}", hatched=True)
    why = "".join(f"; {reason}" for reason in (value.not_comparable, doubt) if reason)
    says = f"{what}: {speed:.1f} % of the median speed ({unit(value.value, UNITS[row.one.metric])}{why})"
    marked = slow and doubt is None and speed < 100 - SIMILAR_PERCENT
    return Box(*at, speed, _short(speed), says, marked, hatched=doubt is not None)


def _short(speed: float) -> str:
    return "." if abs(speed - 100) <= SIMILAR_PERCENT else f"{speed:.1f}"


def _percents(cell: str, spread: Spread, names: Mapping[str, str]) -> tuple[str, ...]:
    entered = {value.gpu_uuid: _entry(spread, value, "{:.1f}".format) for value in spread.values}
    of_devices = (entered.get(uuid, "") for uuid in names)
    return (cell, unit(spread.median, UNITS[spread.metric]), share(spread.spread_percent), *of_devices)


def cell_name(cell: Spread | FullNode) -> str:
    """Return the short name of a cell: "resnet50 train fp32 b8"."""
    batch = "" if cell.phase in ("load", "probe") else f" b{cell.batch_size_requested}"
    phase = "" if cell.phase == "probe" else f" {_PHASES.get(cell.phase, cell.phase)}"
    return f"{cell.model_name}{phase} {cell.precision}{batch}"
