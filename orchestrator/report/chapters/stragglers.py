"""Stragglers: GPUs slower than their siblings, with reasons and next steps; then the losses of a full node."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Final

from orchestrator.figures.comparisons import SLOWED_DOWN, FullNode, SiblingEffect, Standing
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import UNITS
from orchestrator.report.chapters.spread import cell_name
from orchestrator.report.device_labels import by_uuid, label, labels
from orchestrator.report.numbers import NOT_AVAILABLE, number, share, unit
from orchestrator.report.sections import Badge, Finding, Section, Tone, numbers, table, texts
from orchestrator.stats.siblings import SiblingVerdict

SHOWN_CELLS: Final = 3
SHOWN_LOSSES: Final = 12
MEANS_OF_LAUNCHES: Final = (
    "Figures alone and at work are geometric means over the launches; other tables have medians, which differ a little."
)
TONES: Final = {
    SiblingVerdict.OK: Tone.GOOD,
    SiblingVerdict.SUSPECT: Tone.WARN,
    SiblingVerdict.STRAGGLER: Tone.BAD,
    SiblingVerdict.NONE: Tone.QUIET,
}
_FOUND: Final[Sequence[str]] = (SiblingVerdict.STRAGGLER, SiblingVerdict.SUSPECT, SLOWED_DOWN)
"""Verdicts with a finding of their own, in this order."""


def stragglers(report: Report) -> Section | None:
    """The comparison of each device with its siblings; None for a single device."""
    return answer(report) if len(report.gpu_info) > 1 else None


def answer(report: Report) -> Section | None:
    """The comparison with siblings, also for a single device, where it explains why there is none."""
    if not report.stragglers:
        return None
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    found = sorted(
        (one for one in report.stragglers if one.word in _FOUND),
        key=lambda one: (_FOUND.index(one.word), one.percent or 0.0),
    )
    others = list(_alike(report.stragglers, devices))
    if any(one.verdict is SiblingVerdict.STRAGGLER for one in found):
        others.append("A STRAGGLER changes no exit code (1 with --strict).")
    columns = (
        *texts("GPU", "Verdict"),
        *numbers("Of its siblings", "90% interval"),
        *texts("Why", "Probably", "What next"),
    )
    rows = [(label(devices[one.gpu_uuid]), *_standing(one)) for one in report.stragglers]
    return Section(
        "stragglers",
        f"Which {'device' if any(device.kind == 'cpu' for device in report.gpu_info) else 'GPU'} is slow",
        tables=(table("Who is slower than its identical siblings", columns, rows, name="stragglers"),),
        findings=(
            *(_finding(one, devices[one.gpu_uuid]) for one in found),
            Finding(None, "The other devices", tuple(others), opened=True, label=""),
        ),
    )


def _badge(one: Standing) -> Badge:
    return Badge(one.word, Tone.WARN if one.slowed else TONES[one.verdict])


def _standing(one: Standing) -> tuple[str | Badge, ...]:
    interval = NOT_AVAILABLE if one.low_percent is None else f"{share(one.low_percent)} to {share(one.high_percent)}"
    return (_badge(one), share(one.percent), interval, one.why, one.reason_text, one.next_step)


def _finding(one: Standing, device: GpuInfo) -> Finding:
    board = {"at": device.pci_address, "serial": device.serial, "": device.gpu_uuid}
    who = ", ".join([label(device), *(f"{word} {fact}".strip() for word, fact in board.items() if fact)])
    return Finding(_badge(one), who, tuple(_lines(one)), opened=True)


def _lines(one: Standing) -> Iterator[str]:
    yield f"{one.verdict}: {one.why}" if one.slowed else one.why
    if one.reason is not None:
        yield f"probably {one.reason}: {one.reason_text}"
    if one.slowest_cells:
        yield f"most in {'; '.join(_cell(cell) for cell in one.slowest_cells[:SHOWN_CELLS])}"
    if one.launches_wanted is not None:
        yield f"not settled: measure again with --launches {one.launches_wanted}"
    if one.next_step:
        yield f"next: {one.next_step}"
    if one.not_comparable:
        yield f"cells left out: {'; '.join(f'{reason} ({cells})' for reason, cells in one.not_comparable.items())}"


def _cell(effect: SiblingEffect) -> str:
    return f"{effect.cell} ({effect.mode}, {effect.bound}): {share(effect.percent)}"


def _alike(standings: Sequence[Standing], devices: Mapping[str, GpuInfo]) -> Iterator[str]:
    """A line for all devices that are OK, and one for each reason without a verdict."""
    told: dict[str, list[GpuInfo]] = {}
    for one in standings:
        if one.slowed:
            continue
        if one.verdict is SiblingVerdict.OK:
            told.setdefault("OK: not slower than their siblings beyond the margin", []).append(devices[one.gpu_uuid])
        elif one.verdict is SiblingVerdict.NONE:
            told.setdefault(f"no verdict: {one.why}", []).append(devices[one.gpu_uuid])
    yield from (f"{labels(alike)}: {words}" for words, alike in told.items())


def full_node(report: Report) -> Section | None:
    """The loss of each cell when all devices work, largest first; None for a run of one mode.

    Tables: "means" over the devices, and "devices".
    """
    if not report.full_node:
        return None
    names = by_uuid(report)
    cells = _by_cell([one for one in report.full_node if one.ratio is not None])
    means = sorted((_mean_row(cell, several, names) for (cell, _), several in cells.items()), key=lambda row: -row[0])
    more = f"{len(means) - SHOWN_LOSSES} more cells, which lose less, are in the JSON report."
    of_cells = table(
        "",
        (*texts("Cell"), *numbers("Alone", "Full", "Lost"), *texts("Most lost on")),
        [row for _, row in means[:SHOWN_LOSSES]],
        f"{MEANS_OF_LAUNCHES} Over several devices they are geometric means, too."
        + (f" {more}" if len(means) > SHOWN_LOSSES else ""),
        name="means",
    )
    lost = sorted(report.full_node, key=lambda one: -(one.lost_percent or 0.0))
    columns = (*texts("GPU", "Cell"), *numbers("Alone", "All at work", "Lost"), *texts("Remark"))
    rows = [(names[one.gpu_uuid], *_loss(one)) for one in lost]
    return Section(
        "full-node",
        "What a full node loses",
        tables=(of_cells, table("What a full node loses", columns, rows, MEANS_OF_LAUNCHES, name="devices")),
        findings=tuple(_doubts(report.full_node, cells, names)),
    )


def _loss(one: FullNode) -> tuple[str, ...]:
    units = UNITS[one.metric]
    return (one.cell, unit(one.solo, units), unit(one.loaded, units), share(one.lost_percent), one.remark)


def _by_cell(compared: Sequence[FullNode]) -> Mapping[tuple[str, str], list[FullNode]]:
    common = Counter(name for name, _ in {(cell_name(one), one.input_size) for one in compared})
    cells: dict[tuple[str, str], list[FullNode]] = {}
    for one in compared:
        name = cell_name(one)
        sized = f"{name} s{one.input_size}" if common[name] > 1 else name
        cells.setdefault((sized, one.metric), []).append(one)
    return cells


def _mean_row(cell: str, several: Sequence[FullNode], names: Mapping[str, str]) -> tuple[float, tuple[str, ...]]:
    """The loss to sort by, and the row: geometric means over the devices, and the device that loses most."""
    lost = {one.gpu_uuid: one.lost_percent or 0.0 for one in several}
    most = max(lost, key=lost.__getitem__)
    alone, together = (_mean(side) for side in zip(*((one.solo, one.loaded) for one in several), strict=True))
    middle = (1 - 1 / _mean(one.ratio for one in several)) * 100
    row = (cell, unit(alone, UNITS[several[0].metric]), number(together), share(middle))
    return middle, (*row, f"{names[most]} ({share(lost[most])})")


def _mean(values: Iterable[float | None]) -> float:
    return geometric_mean(value for value in values if value is not None)


def _doubts(
    every: Iterable[FullNode], cells: Mapping[tuple[str, str], Sequence[FullNode]], names: Mapping[str, str]
) -> Iterator[Finding]:
    """Caveats about rows, each once with its devices."""
    without = [f"{names[one.gpu_uuid]}, {one.cell}: {one.remark}" for one in every if one.not_comparable is not None]
    if without:
        yield Finding(None, "Not comparable", tuple(without), listed=True, most=SHOWN_CELLS)
    doubts = []
    for (cell, _), several in cells.items():
        about: dict[str, list[str]] = {}
        for one in several:
            for note in one.notes:
                about.setdefault(note, []).append(names[one.gpu_uuid])
        doubts += [f"{cell}, {', '.join(who)}: {note}" for note, who in about.items()]
    if doubts:
        yield Finding(None, "What to know before believing it", tuple(doubts), listed=True, most=SHOWN_LOSSES)
