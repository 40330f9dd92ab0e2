"""Identical devices side by side, as text: the spread of each cell, then who differs from the median, and by how much.

    Cell                     GPU 0 GPU 1 GPU 2 GPU 3        percent of the median speed, "." within 1 % of it
    resnet50 train fp32 b8       .     .  96.1     .

A node of eight GPUs has some forty cells: only what differs is left to be read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.figures.comparisons import FullNode, Spread, SpreadValue
from orchestrator.figures.report import Report
from orchestrator.figures.table import FIGURES
from orchestrator.report import layout
from orchestrator.report.numbers import share, unit
from orchestrator.report.text_gpus import label
from orchestrator.report.text_remarks import SHORT

SIMILAR_PERCENT: Final = 1.0
"""What identical devices may differ by without being listed: the interval target of the standard profile."""
LEAST_COLUMN: Final = 5
"""Columns that a device takes: "GPU 0", "100.4"."""
LONGEST_CELL: Final = 40
"""Up to 30 leave room for eight devices side by side; of longer names, the devices are continued below."""
SHOWN_NOTES: Final = 6
SHOWN_CELLS: Final = 3
_FREQUENT: Final = "not steady"
"""A short warm-up makes many of these notes; they must not hide the others."""
_LOAD: Final = "model_load_time_ms"
_PHASES: Final = {"inference": "infer", "training": "train", "generation": "write"}
UNITS: Final = {figure.field: figure.unit for figure in FIGURES if figure.main}
NOT_COMPARABLE: Final = ("n/c", "not comparable")


def spread(report: Report) -> Iterator[str]:
    """The chapter, nothing where no two devices are identical."""
    if not report.cross_gpu:
        return
    names = {device.gpu_uuid: label(device) for device in report.gpu_info}
    on_cpu = any(device.kind == "cpu" for device in report.gpu_info)
    yield from layout.chapter(f"Spread Between Identical {'Devices' if on_cpu else 'GPUs'}")
    for spreads in by_devices(report.cross_gpu):
        cells = dict(zip(cell_names(spreads), spreads, strict=True))
        yield from layout.wrap(f"{spreads[0].gpu_name}, {len(spreads[0].values)} devices:")
        rows = [_row(cell, one, names) for cell, one in cells.items()]
        yield from layout.table(("Cell", "Median", "Spread", "Slowest", "Fastest"), rows)
        yield from _matrix(cells, names)
        yield from layout.bullets(notes(cells), SHOWN_NOTES)
        yield ""
    yield from layout.wrap("Every value: report.json (cross_gpu, results) and report.csv in the run's folder.")
    yield ""


def by_devices(spreads: Iterable[Spread]) -> Iterable[list[Spread]]:
    """The comparisons of each group of identical devices."""
    found: dict[tuple[str, ...], list[Spread]] = {}
    for one in spreads:
        found.setdefault(tuple(value.gpu_uuid for value in one.values), []).append(one)
    return found.values()


def _row(cell: str, one: Spread, names: Mapping[str, str]) -> tuple[str, ...]:
    compared = {
        value.gpu_uuid: speed
        for value in one.values
        if (speed := speed_percent(one, value)) is not None and value.not_comparable is None
    }
    if not compared:
        return (cell, one.comparison, "", "", "")
    return (
        cell,
        unit(one.median, UNITS[one.metric]),
        share(one.spread_percent),
        names[min(compared, key=lambda uuid: compared[uuid])],
        names[max(compared, key=lambda uuid: compared[uuid])],
    )


def speed_percent(one: Spread, value: SpreadValue) -> float | None:
    """Percent of the median speed. Of a time, the longest is the slowest. None where that is not told."""
    percent = value.percent_of_median
    if not percent:
        return None
    return 10_000 / percent if one.metric == _LOAD else percent


def _matrix(cells: Mapping[str, Spread], names: Mapping[str, str]) -> Iterator[str]:
    entered = {cell: {value.gpu_uuid: _entry(one, value) for value in one.values} for cell, one in cells.items()}
    differing = [(cell, entries) for cell, entries in entered.items() if set(entries.values()) != {"."}]
    yield ""
    if not differing:
        yield from layout.wrap(f"In every cell each device is within {SIMILAR_PERCENT:g}% of the median.", "  ")
        return
    left_out = len(cells) - len(differing)
    yield from layout.wrap(
        f'Percent of the median speed (below 100 is slower; "." is within {SIMILAR_PERCENT:g}%)'
        + (f". Cells in which every device is that near are left out: {left_out}." if left_out else ":"),
        "  ",
    )
    first = min(LONGEST_CELL, max(layout.width(cell) for cell, _ in differing))
    uuids = [value.gpu_uuid for value in next(iter(cells.values())).values]
    column = max(LEAST_COLUMN, *(layout.width(names[uuid]) for uuid in uuids))
    side_by_side = max(1, (layout.WIDTH - 2 - first) // (column + 1))
    for begin in range(0, len(uuids), side_by_side):
        shown = uuids[begin : begin + side_by_side]
        yield from _lines("Cell", [names[uuid] for uuid in shown], first, column)
        for cell, entries in differing:
            yield from _lines(cell, [entries[uuid] for uuid in shown], first, column)
    yield from _legend({entry for _, entries in differing for entry in entries.values()})


def _entry(one: Spread, value: SpreadValue) -> str:
    speed = speed_percent(one, value)
    if speed is None:
        return SHORT.get(value.status, NOT_COMPARABLE)[0]
    return "." if abs(speed - 100) <= SIMILAR_PERCENT else f"{speed:.1f}"


def _lines(cell: str, entries: Sequence[str], first: int, column: int) -> Iterator[str]:
    return layout.beside(cell, first, "".join(f" {entry:>{column}}" for entry in entries), "  ")


def _legend(entries: set[str]) -> Iterator[str]:
    words = [f"{short}: {meaning}" for short, meaning in (*SHORT.values(), NOT_COMPARABLE) if short in entries]
    if words:
        yield from layout.wrap("; ".join(words), "  ", "  ")


def cell_names(spreads: Sequence[Spread]) -> Iterator[str]:
    """Names of the cells, each once: with input size, memory format and the like where these tell cells apart."""
    modes = {one.mode for one in spreads}
    named = [f"{cell_name(one)} {one.mode}" if len(modes) > 1 else cell_name(one) for one in spreads]
    common = Counter(named)
    for cell, one in zip(named, spreads, strict=True):
        yield cell if common[cell] == 1 else f"{cell}{_further(one)}"


def cell_name(one: Spread | FullNode) -> str:
    """A cell in short: "resnet50 train fp32 b8"."""
    batch = "" if one.phase in ("load", "probe") else f" b{one.batch_size_requested}"
    phase = "" if one.phase == "probe" else f" {_PHASES.get(one.phase, one.phase)}"
    return f"{one.model_name}{phase} {one.precision}{batch}"


def _further(one: Spread) -> str:
    size = "" if one.input_size is None else f" s{one.input_size}"
    return f"{size} {one.memory_format}" if one.memory_format == "channels_last" else size


def notes(cells: Mapping[str, Spread]) -> Iterator[str]:
    """Each note once, with the cells that it is about; a note about every cell stands alone and first.

    Of the others, those about few cells come first: what happened once is what nobody would look for.
    """
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
