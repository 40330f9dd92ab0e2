"""The chapter of stragglers (GPUs slower than identical ones, their siblings), and that of losses on a full node.

standing: a GPU's verdict and its rate relative to its siblings.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Final

from orchestrator.figures.comparisons import SLOWED_DOWN, FullNode, SiblingEffect, Standing
from orchestrator.figures.exit_code import CauseKind
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import UNITS
from orchestrator.report.charts.spread import cell_name
from orchestrator.report.device_labels import by_uuid, label, labels
from orchestrator.report.numbers import NOT_AVAILABLE, number, share, unit
from orchestrator.report.remarks import DOUBTS
from orchestrator.report.sections import Badge, Finding, Section, Tone, numbers, table, texts
from orchestrator.stats.slowdown_reasons import CAUSES, Reason
from orchestrator.stats.stragglers import SiblingVerdict

SHOWN_CELLS: Final = 3
SHOWN_LOSSES: Final = 12
MEANS_OF_LAUNCHES: Final = (
    "These rates are geometric means over the launches, so they differ a little from the medians in other tables."
)
TONES: Final = {
    SiblingVerdict.OK: Tone.GOOD,
    SiblingVerdict.SUSPECT: Tone.WARN,
    SiblingVerdict.STRAGGLER: Tone.WARN,
    SiblingVerdict.IN_CELLS: Tone.WARN,
    SiblingVerdict.BELOW_BASELINE: Tone.WARN,
    SiblingVerdict.SPLIT: Tone.WARN,
    SiblingVerdict.NONE: Tone.QUIET,
}
_FOUND: Final[Sequence[str]] = (
    SiblingVerdict.STRAGGLER,
    SiblingVerdict.BELOW_BASELINE,
    SiblingVerdict.IN_CELLS,
    SiblingVerdict.SUSPECT,
    SLOWED_DOWN,
)
"""Verdicts of which each GPU gets a finding of its own, in the order of the findings."""
SLOW: Final = frozenset({SiblingVerdict.STRAGGLER, SiblingVerdict.BELOW_BASELINE, SiblingVerdict.IN_CELLS})
"""Verdicts on GPUs that are certainly slow, in all cells or in some."""
_BRIEF_CAUSES: Final[Mapping[str, str]] = {
    Reason.CLOCK: "its clock is lower, for an unknown reason",
    Reason.OTHER: "cause unknown",
    Reason.UNKNOWN: "cause unknown",
    Reason.NOT_SLOWER: "",
}
_BY_RATE: Final = (SiblingVerdict.STRAGGLER, SiblingVerdict.SUSPECT)
"""Verdicts whose evidence is the rate over all cells, so that a brief finding states that rate."""


def stragglers(report: Report) -> Section | None:
    """Return how each device compares with its siblings, or why it has no verdict; None without standings.

    None also if only one device was measured and it is not slow.
    """
    judged = len(report.gpu_info) > 1 or any(standing.verdict.is_finding for standing in report.stragglers)
    return answer(report) if judged else None


def answer(report: Report) -> Section | None:
    """Return how each device compares with its siblings, or why it has no verdict; None without standings."""
    if not report.stragglers:
        return None
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    found = sorted(
        (one for one in report.stragglers if one.word in _FOUND),
        key=lambda one: (_FOUND.index(one.word), one.percent or 0.0),
    )
    others = list(_alike(report.stragglers, devices))
    if any(one.verdict.is_finding for one in report.stragglers):
        others.append("A slow GPU does not change the exit code (with --strict: 1).")
    columns = (
        *texts("GPU", "Verdict"),
        *numbers("Of its siblings", "90% interval"),
        *texts("Why", "Probably", "What next"),
    )
    rows = [(label(devices[standing.gpu_uuid]), *_standing(standing)) for standing in report.stragglers]
    return Section(
        "stragglers",
        f"Which {'device' if any(device.kind == 'cpu' for device in report.gpu_info) else 'GPU'} is slow",
        tables=(table("Each device compared with its siblings", columns, rows, name="stragglers"),),
        findings=(
            *_splits(report.stragglers, devices),
            *(_finding(one, devices[one.gpu_uuid]) for one in found),
            Finding(None, "The other devices", tuple(others), opened=True, label=""),
        ),
    )


def badge(standing: Standing) -> Badge:
    """Return a GPU's verdict as a badge in its colour."""
    return Badge(standing.word, Tone.WARN if standing.slowed else TONES[standing.verdict])


def _standing(standing: Standing) -> tuple[str | Badge, ...]:
    interval = (
        NOT_AVAILABLE
        if standing.low_percent is None
        else f"{share(standing.low_percent)} to {share(standing.high_percent)}"
    )
    return (badge(standing), share(standing.percent), interval, standing.why, standing.reason_text, standing.next_step)


def _finding(standing: Standing, device: GpuInfo) -> Finding:
    board = {"at": device.pci_address, "serial": device.serial, "": device.gpu_uuid}
    who = ", ".join([label(device), *(f"{word} {fact}".strip() for word, fact in board.items() if fact)])
    return Finding(badge(standing), who, tuple(_lines(standing)), opened=True)


def is_found(standing: Standing) -> bool:
    """Whether a GPU gets a finding: it is slow, SUSPECT (perhaps slow), SLOWED DOWN or SPLIT.

    SPLIT: a minority of the identical GPUs is faster than the rest, and it is unknown which speed is normal.
    """
    return standing.word in _FOUND or standing.verdict is SiblingVerdict.SPLIT


def concerns_gpus(report: Report) -> bool:
    """Whether the machine or a GPU is faulty, or a GPU is slow or perhaps slow (is_found).

    This matters more than any figure.
    """
    faulty = any(cause.kind is CauseKind.FAULT for cause in report.verdict.causes)
    return faulty or any(map(is_found, report.stragglers))


def board(device: GpuInfo) -> str:
    """Return where a GPU is and which one it is: "00000000:1D:00.0, serial 1650000000005"; "" if unknown."""
    return ", ".join(filter(None, (device.pci_address, device.serial and f"serial {device.serial}")))


def to_do(step: str, which: str) -> tuple[str, ...]:
    """Return the lines of a brief finding: "to do: STEP", then `which` (the board). A line without text is omitted."""
    return tuple(filter(None, (step and f"to do: {step}", which)))


def brief_findings(report: Report) -> Iterator[Finding]:
    """Yield a short finding for each GPU of which is_found is true: verdict, its reason, what to do.

    GPUs with no rate relative to siblings come first, then the slowest.
    """
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    for one in sorted(filter(is_found, report.stragglers), key=lambda one: one.percent or 0.0):
        device = devices[one.gpu_uuid]
        wanted = f"--launches {one.launches_wanted} settles it" if one.launches_wanted is not None else ""
        rate = _rate(one)
        evidence = "; ".join(filter(None, (rate if one.verdict in _BY_RATE else one.why, brief_cause(one.reason))))
        step = "; ".join(filter(None, (one.next_step, wanted)))
        yield Finding(badge(one), f"{label(device)}: {evidence}", to_do(step, board(device)))


def brief_cause(reason: str | None) -> str:
    """Return the cause of slowness in a few words: "probably heat", "cause unknown".

    reason: value of Reason. "" if it is None (no cause was sought) or NOT_SLOWER.
    """
    if reason is None:
        return ""
    return _BRIEF_CAUSES.get(reason, f"probably {reason}")


def cause(standing: Standing) -> str:
    """Return the probable cause of a GPU's slowness with its evidence, "" if no cause was sought.

    If the cause is unknown or only a lower clock, return the evidence alone.
    """
    if standing.reason is None:
        return ""
    evidence = standing.reason_text
    return f"probably {standing.reason}: {evidence}" if standing.reason in CAUSES else evidence


def _rate(one: Standing) -> str:
    if one.verdict is SiblingVerdict.STRAGGLER and one.percent is not None:
        return f"{share(100 - one.percent)} slower than its siblings"
    of, low, high = map(share, (one.percent, one.low_percent, one.high_percent))
    return f"{of} of its siblings' rate ({low} to {high})"


def without_finding(report: Report, elsewhere: Collection[str]) -> Iterator[Finding]:
    """Yield one finding that names all GPUs with verdict OK, and one for each reason why GPUs have no verdict.

    Skipped are GPUs with a finding of their own (is_found) and GPUs in `elsewhere` (UUIDs).
    """
    devices = {device.gpu_uuid: device for device in report.gpu_info}
    standings = [one for one in report.stragglers if not is_found(one) and one.gpu_uuid not in elsewhere]
    alike: dict[tuple[SiblingVerdict, str], list[Standing]] = {}
    for one in standings:
        alike.setdefault((one.verdict, "" if one.verdict is SiblingVerdict.OK else one.why), []).append(one)
    for (_, why), of_verdict in alike.items():
        who = labels([devices[one.gpu_uuid] for one in of_verdict])
        yield Finding(badge(of_verdict[0]), f"{who}: {why or rates(of_verdict)}")


def rates(standings: Sequence[Standing]) -> str:
    """Return the range of the rates: "99.7% to 100.2% of siblings' rate". At least one rate must be known."""
    percents = sorted(standing.percent for standing in standings if standing.percent is not None)
    between = " to ".join(dict.fromkeys(map(share, (percents[0], percents[-1]))))
    return f"{between} of siblings' rate"


def _splits(standings: Sequence[Standing], devices: Mapping[str, GpuInfo]) -> Iterator[Finding]:
    split: dict[str, list[Standing]] = {}
    for one in standings:
        if one.verdict is SiblingVerdict.SPLIT:
            split.setdefault(one.why, []).append(one)
    for why, alike in split.items():
        who = labels([devices[one.gpu_uuid] for one in alike])
        reasons = ", ".join(dict.fromkeys(one.reason for one in alike if one.reason is not None))
        probably = (f"why the others are slower: probably {reasons}",) if reasons else ()
        yield Finding(badge(alike[0]), who, (why, *probably, f"next: {alike[0].next_step}"), opened=True)


def _lines(standing: Standing) -> Iterator[str]:
    yield f"{standing.verdict}: {standing.why}" if standing.slowed else standing.why
    if standing.baseline and standing.verdict is not SiblingVerdict.BELOW_BASELINE:
        yield f"{share(standing.baseline_percent)} of the baseline {standing.baseline}"
    if standing.reason is not None:
        yield cause(standing)
    if standing.slowest_cells:
        yield f"slowest in {'; '.join(_cell(cell) for cell in standing.slowest_cells[:SHOWN_CELLS])}"
    if standing.launches_wanted is not None:
        yield f"not settled: measure again with --launches {standing.launches_wanted}"
    if standing.next_step:
        yield f"next: {standing.next_step}"
    if standing.not_comparable:
        yield f"cells excluded: {'; '.join(f'{reason} ({cells})' for reason, cells in standing.not_comparable.items())}"


def _cell(effect: SiblingEffect) -> str:
    return f"{effect.cell} ({effect.mode}, {effect.bound}): {share(effect.percent)}"


def _alike(standings: Sequence[Standing], devices: Mapping[str, GpuInfo]) -> Iterator[str]:
    """Yield one line that names all OK devices, and one for each reason for no verdict. Skip SLOWED DOWN devices."""
    alike_by_line: dict[str, list[GpuInfo]] = {}
    for one in standings:
        if one.slowed:
            continue
        if one.verdict is SiblingVerdict.OK:
            alike_by_line.setdefault("OK: not slower than their siblings by more than the margin", []).append(
                devices[one.gpu_uuid]
            )
        elif one.verdict is SiblingVerdict.NONE:
            alike_by_line.setdefault(f"no verdict: {one.why}", []).append(devices[one.gpu_uuid])
    yield from (f"{labels(alike)}: {words}" for words, alike in alike_by_line.items())


def full_node(report: Report) -> Section | None:
    """Return how much slower each cell is when all devices work than when one does; None unless both were measured.

    Names of the tables: "means" (over the devices, only of the SHOWN_LOSSES cells that lose most) and "devices".
    """
    if not report.full_node:
        return None
    names = by_uuid(report)
    cells = _by_cell([loss for loss in report.full_node if loss.ratio is not None])
    means = sorted((_mean_row(cell, several, names) for (cell, _), several in cells.items()), key=lambda row: -row[0])
    more = f"{len(means) - SHOWN_LOSSES} more cells, which lose less, are in the JSON report."
    of_cells = table(
        "",
        (*texts("Cell"), *numbers("Alone", "Full", "Lost"), *texts("Most lost on")),
        [row for _, row in means[:SHOWN_LOSSES]],
        f"{MEANS_OF_LAUNCHES} Over the devices they are geometric means, too."
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


def _loss(loss: FullNode) -> tuple[str, ...]:
    units = UNITS[loss.metric]
    return (loss.cell, unit(loss.solo, units), unit(loss.loaded, units), share(loss.lost_percent), loss.remark)


def _by_cell(compared: Sequence[FullNode]) -> Mapping[tuple[str, str], list[FullNode]]:
    common = Counter(name for name, _ in {(cell_name(loss), loss.input_size) for loss in compared})
    cells: dict[tuple[str, str], list[FullNode]] = {}
    for one in compared:
        name = cell_name(one)
        sized = f"{name} s{one.input_size}" if common[name] > 1 else name
        cells.setdefault((sized, one.metric), []).append(one)
    return cells


def _mean_row(cell: str, several: Sequence[FullNode], names: Mapping[str, str]) -> tuple[float, tuple[str, ...]]:
    """Return (mean loss of speed over the devices in percent, row of the table, which ends with the largest loss).

    several: the losses of this cell, one for each device. names: UUID → label of the device.
    """
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
        yield Finding(None, DOUBTS, tuple(doubts), listed=True, most=SHOWN_LOSSES)
