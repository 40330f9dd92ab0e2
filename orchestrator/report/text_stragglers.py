"""Which GPU is slower than its siblings, why, and in which slot, as text; then what a full node loses.

Of GPUs that are OK there is one line for all; each other one is told with what to look for and what to do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Final

from orchestrator.config.presets import TRIAGE
from orchestrator.figures.comparisons import SLOWED_DOWN, FullNode, SiblingEffect, Standing
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.report import layout
from orchestrator.report.numbers import number, share, unit
from orchestrator.report.text_gpus import label, labels
from orchestrator.report.text_spread import UNITS, cell_name
from orchestrator.stats.siblings import SiblingVerdict

SHOWN_CELLS: Final = 3
SHOWN_LOSSES: Final = 12
MEANS_OF_LAUNCHES: Final = (
    "Figures alone and at work are geometric means over the launches; other tables have medians, which differ a little."
)
_FOUND: Final[Sequence[str]] = (SiblingVerdict.STRAGGLER, SiblingVerdict.SUSPECT, SLOWED_DOWN)
"""Each is told for itself, in this order."""


def stragglers(report: Report) -> Iterator[str]:
    """The chapter, nothing for one device alone, unless it is what was asked: triage."""
    asked = report.test_configuration.preset == TRIAGE
    if not report.stragglers or (len(report.gpu_info) == 1 and not asked):
        return
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    on_cpu = any(device.kind == "cpu" for device in report.gpu_info)
    yield from layout.chapter(f"Which {'Device' if on_cpu else 'GPU'} Is Slow")
    found = sorted(
        (one for one in report.stragglers if one.word in _FOUND),
        key=lambda one: (_FOUND.index(one.word), one.percent or 0.0),
    )
    for one in found:
        yield from _found(one, devices[one.gpu_uuid])
    yield from _alike(report.stragglers, devices)
    if any(one.verdict is SiblingVerdict.STRAGGLER for one in found):
        yield from layout.wrap("A STRAGGLER changes no exit code (1 with --strict).")
    yield ""


def _found(one: Standing, device: GpuInfo) -> Iterator[str]:
    """A GPU that is, or may be, slow: the board to look for, by how much, where, why, and what to do."""
    board = {"at": device.pci_address, "serial": device.serial, "": device.gpu_uuid}
    who = ", ".join([label(device), *(f"{word} {fact}".strip() for word, fact in board.items() if fact)])
    yield from layout.wrap(f"{one.word}: {who}")
    yield from layout.wrap(f"{one.verdict}: {one.why}" if one.slowed else one.why, "  ", "  ")
    if one.reason is not None:
        yield from layout.wrap(f"probably {one.reason}: {one.reason_text}", "  ", "  ")
    if one.slowest_cells:
        shown = "; ".join(_cell(cell) for cell in one.slowest_cells[:SHOWN_CELLS])
        yield from layout.wrap(f"most in {shown}", "  ", "  ")
    if one.launches_wanted is not None:
        yield from layout.wrap(f"not settled: measure again with --launches {one.launches_wanted}", "  ", "  ")
    if one.next_step:
        yield from layout.wrap(f"next: {one.next_step}", "  ", "  ")
    yield from _left_out(one)


def _cell(effect: SiblingEffect) -> str:
    return f"{effect.cell} ({effect.mode}, {effect.bound}): {share(effect.percent)}"


def _left_out(one: Standing) -> Iterator[str]:
    if one.not_comparable:
        facts = "; ".join(f"{reason} ({cells})" for reason, cells in one.not_comparable.items())
        yield from layout.wrap(f"cells left out: {facts}", "  ", "  ")


def _alike(standings: Sequence[Standing], devices: Mapping[str, GpuInfo]) -> Iterator[str]:
    """A line for all that are OK, and one for all that have no verdict for the same reason."""
    told: dict[str, list[GpuInfo]] = {}
    for one in standings:
        if one.slowed:
            continue
        if one.verdict is SiblingVerdict.OK:
            told.setdefault("OK: not slower than their siblings beyond the margin", []).append(devices[one.gpu_uuid])
        elif one.verdict is SiblingVerdict.NONE:
            told.setdefault(f"no verdict: {one.why}", []).append(devices[one.gpu_uuid])
    for words, alike in told.items():
        yield from layout.wrap(f"{labels(alike)}: {words}", "", "  ")


def full_node(report: Report) -> Iterator[str]:
    """What the cells lose when all devices are at work, the most first; nothing for a run of one mode."""
    compared = [one for one in report.full_node if one.ratio is not None]
    if not report.full_node:
        return
    names = {device.gpu_uuid: label(device) for device in report.gpu_info}
    yield from layout.chapter("What a Full Node Loses")
    cells: dict[tuple[str, str], list[FullNode]] = {}
    sizes = {(cell_name(one), one.input_size) for one in compared}
    common = Counter(name for name, _ in sizes)
    for one in compared:
        name = cell_name(one)
        sized = f"{name} s{one.input_size}" if common[name] > 1 else name
        cells.setdefault((sized, one.metric), []).append(one)
    rows = sorted((_row(cell, several, names) for (cell, _), several in cells.items()), key=lambda row: -row[0])
    if rows:
        shown = [row for _, row in rows[:SHOWN_LOSSES]]
        yield from layout.table(("Cell", "Alone", "Full", "Lost", "Most lost on"), shown)
        yield from layout.wrap(f"{MEANS_OF_LAUNCHES} Over several devices they are geometric means, too.")
    if len(rows) > SHOWN_LOSSES:
        yield from layout.wrap(f"{len(rows) - SHOWN_LOSSES} more cells, which lose less, are in the JSON report.")
    yield from layout.bullets(_without_ratio(report.full_node, names), SHOWN_CELLS)
    yield from layout.bullets(_doubts(((cell, several) for (cell, _), several in cells.items()), names), SHOWN_LOSSES)
    yield ""


def _row(cell: str, several: Sequence[FullNode], names: Mapping[str, str]) -> tuple[float, tuple[str, ...]]:
    """Geometric means over the devices, of which the ratio is that of the means; and the device that loses most.

    Before it what the rows are sorted by.
    """
    lost = {one.gpu_uuid: one.lost_percent or 0.0 for one in several}
    most = max(lost, key=lost.__getitem__)
    alone, together = (_mean(side) for side in zip(*((one.solo, one.loaded) for one in several), strict=True))
    middle = (1 - 1 / _mean(one.ratio for one in several)) * 100
    row = (cell, unit(alone, UNITS[several[0].metric]), number(together), share(middle))
    return middle, (*row, f"{names[most]} ({share(lost[most])})")


def _mean(values: Iterable[float | None]) -> float:
    return geometric_mean(value for value in values if value is not None)


def _without_ratio(all_of_them: Iterable[FullNode], names: Mapping[str, str]) -> Iterator[str]:
    for one in all_of_them:
        if one.not_comparable is not None:
            yield f"{names[one.gpu_uuid]}, {one.cell}: {one.remark}"


def _doubts(cells: Iterable[tuple[str, Sequence[FullNode]]], names: Mapping[str, str]) -> Iterator[str]:
    """What to know before believing a row, each once, with the devices that it is about."""
    for cell, several in cells:
        about: dict[str, list[str]] = {}
        for one in several:
            for note in one.notes:
                about.setdefault(note, []).append(names[one.gpu_uuid])
        yield from (f"{cell}, {', '.join(who)}: {note}" for note, who in about.items())
