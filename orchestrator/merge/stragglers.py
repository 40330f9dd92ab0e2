"""Which GPU of the run is slower than its identical siblings, where, and why: judged by stats/, written down. Pure.

    cells side by side (cross_gpu.py) ── what does not compare is left out, and said
      ── rates of launches, each mode apart ── siblings.py ──▶ verdict    the worse of the two stands
      ── what the GPU was like in its slowest cells ── why_beside.py ──▶ reason ──▶ next step

Loading is left out: it measures the host's page cache. Modes are judged apart, because a GPU that is slow only when all
are at work would be half hidden by what it does alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from orchestrator.merge.cross_gpu import NO_VERDICT_ON_CPU, Group, Point, SideBySide
from orchestrator.report.cells import Measured
from orchestrator.report.comparisons import SiblingEffect, Standing
from orchestrator.report.keys import CellKey
from orchestrator.sampling.clock_events import CLOCK_EVENT_REASONS, POWER_CAP
from orchestrator.stats import margins, siblings, why_beside
from orchestrator.stats.margins import Bound
from orchestrator.stats.siblings import LEAST_GPUS, Effect, Sibling, SiblingCell, Verdict
from orchestrator.stats.why_beside import Traits, Work
from orchestrator.stats.why_slower import Reading, Reason, Why
from protocol.cell import Device, DeviceKind, Workload

SHOWN_CELLS: Final = 5
ON_A_SLICE: Final = "slices of a GPU get no performance verdict: they share its power and its clocks"
UNSTEADY: Final = "not steady after warm-up"
_CAPPED: Final = CLOCK_EVENT_REASONS[POWER_CAP]
_GRAVEST_FIRST: Final = (Verdict.STRAGGLER, Verdict.SUSPECT, Verdict.OK, Verdict.NONE)
_WORK: Final = {"hbm": Work.MEMORY, "h2d": Work.TRANSFER, "d2h": Work.TRANSFER}
"""Of probes, by name; everything else computes."""
NEXT_STEP: Final = {
    Reason.HEAT: "look at its cooling: fans, airflow, dust, and what stands before and behind its slot",
    Reason.POWER: "exchange it with another slot: if the slot stays slow, look at its power supply, else at the board",
    Reason.CLOCK: "look for clocks that were set, and at what holds them down: nvidia-smi -q -d CLOCK,PERFORMANCE",
    Reason.LINK: "put the board, or its riser, in anew, and look at the slot's settings in the BIOS",
    Reason.MEMORY: "look at its memory errors in the chapter on health, then load it for a night: --burn-in 8h",
    Reason.HOST: "look at what else works on the host's cores near it, and at their governor (doctor)",
}
_NEXT: Final = "load it for an hour with --burn-in 1h, which verifies what it computes, and look at its health"


@dataclass(frozen=True)
class _Cell:
    """A cell of identical GPUs, and those of its points that are judged."""

    name: str
    key: CellKey
    bound: Bound
    points: Mapping[str, Point]


def standings(devices: Sequence[Device], sides: Sequence[SideBySide]) -> tuple[Standing, ...]:
    """One for each device, in their order. sides: every cell of the run that identical devices share."""
    alike: dict[tuple[object, ...], list[Device]] = defaultdict(list)
    for device in devices:
        alike[device.kind, device.name, device.memory_total_bytes].append(device)
    found: dict[str, Standing] = {}
    for kind, group in alike.items():
        mine = [side for side in sides if side.group[:3] == kind and side.group.cell.phase is not Workload.LOAD]
        found |= {standing.gpu_uuid: standing for standing in _of_group(group, mine)}
    return tuple(found[device.uuid] for device in devices)


def _of_group(group: Sequence[Device], sides: Sequence[SideBySide]) -> Iterator[Standing]:
    cells = [_cell(name, side) for name, side in zip(_names([side.group for side in sides]), sides, strict=True)]
    modes = list(dict.fromkeys(cell.key.mode for cell in cells))
    judged = {mode: _judged([cell for cell in cells if cell.key.mode == mode], len(modes)) for mode in modes}
    missing: dict[str, Counter[str]] = defaultdict(Counter)
    for side in sides:
        for uuid, reason in _left_out(side).items():
            missing[uuid][reason] += 1
    for device in group:
        left_out = missing[device.uuid]
        if why := _no_verdict(device, group):
            yield _without(device, group, why, left_out)
            continue
        own = {mode: by_gpu[device.uuid] for mode, by_gpu in judged.items() if device.uuid in by_gpu}
        by_gravity = sorted(own, key=lambda mode: (_GRAVEST_FIRST.index(own[mode].verdict), own[mode].p or 0.0))
        if not by_gravity or own[by_gravity[0]].verdict is Verdict.NONE:
            yield _without(device, group, _why_not(device, cells, left_out), left_out)
        else:
            yield _standing(device, group, cells, {mode: own[mode] for mode in by_gravity}, left_out)


def _judged(cells: Sequence[_Cell], modes: int) -> dict[str, Sibling]:
    """By GPU, the verdict over the cells of one mode."""
    shares = margins.load().shares
    told = [
        SiblingCell(
            name=cell.name,
            bound=cell.bound,
            rates={uuid: point.metric.launch_values for uuid, point in cell.points.items()},
        )
        for cell in cells
    ]
    return {one.gpu: one for one in siblings.judge(told, shares, asked=modes)}


# ── what is judged ────────────────────────────────────────────────────────────────────────────────────────────────────


def _cell(name: str, side: SideBySide) -> _Cell:
    left_out = _left_out(side)
    points = {point.device.uuid: point for point in side.points if point.device.uuid not in left_out}
    return _Cell(name, side.group.cell, _bound(side.group.cell, [point.metric for point in points.values()]), points)


def _left_out(side: SideBySide) -> dict[str, str]:
    """The GPUs of which a cell says nothing, and why."""
    found = {}
    for point, reason in zip(side.points, side.reasons, strict=True):
        unusable = "" if min(point.metric.launch_values, default=0.0) > 0 else "no rate above zero"
        if why := reason or ("" if point.steady else UNSTEADY) or unusable:
            found[point.device.uuid] = why
    return found


def _bound(key: CellKey, metrics: Sequence[Measured]) -> Bound:
    """What limits a cell: power where the driver said so on most GPUs."""
    if _work(key) is not Work.COMPUTE:
        return Bound.BANDWIDTH
    capped = sum(_CAPPED in metric.clock_event_reasons for metric in metrics)
    return Bound.POWER if capped * 2 > len(metrics) else Bound.CLOCK


def _work(key: CellKey) -> Work:
    return _WORK.get(key.model_name, Work.COMPUTE) if key.phase is Workload.PROBE else Work.COMPUTE


def _names(groups: Sequence[Group]) -> list[str]:
    """A name for each cell, no two alike within a mode: with sizes where words alone do not tell them apart."""
    common = Counter((group.cell.mode, group.cell.words) for group in groups)
    names = []
    for cell in (group.cell for group in groups):
        size = "" if cell.input_size is None else f"input {cell.input_size}"
        tokens = "" if cell.new_tokens is None else f"{cell.new_tokens} tokens"
        further = [word for word in (size, tokens, cell.memory_format, cell.compile_mode) if word]
        names.append(cell.words if common[cell.mode, cell.words] == 1 else " ".join([cell.words, *further]))
    return names


# ── no verdict ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _no_verdict(device: Device, group: Sequence[Device]) -> str:
    """Why there can be none, whatever was measured; empty where there can."""
    if device.kind is DeviceKind.CPU:
        return NO_VERDICT_ON_CPU
    if device.slice_of is not None:
        return ON_A_SLICE
    if len(group) < LEAST_GPUS:
        who = "alone of its kind" if len(group) == 1 else f"one of {len(group)} identical GPUs"
        return (
            f"{who}: who of fewer than {LEAST_GPUS} is slow cannot be told from each other, only against a baseline "
            "(--compare-baseline)"
        )
    return ""


def _why_not(device: Device, cells: Sequence[_Cell], left_out: Counter[str]) -> str:
    mine = [cell for cell in cells if device.uuid in cell.points]
    if not mine:
        facts = "; ".join(reason for reason, _ in left_out.most_common())
        return f"not comparable: {facts}" if facts else "nothing that compares was measured on it"
    if max(len(cell.points) for cell in mine) < LEAST_GPUS:
        return f"fewer than {LEAST_GPUS} of its identical GPUs compare with it"
    return "one launch of each cell: no verdict; measure again with --launches 3"


def _without(device: Device, group: Sequence[Device], why: str, left_out: Counter[str]) -> Standing:
    return Standing(
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        gpu_name=device.name,
        verdict=Verdict.NONE,
        why=why,
        identical=len(group),
        percent=None,
        low_percent=None,
        high_percent=None,
        p=None,
        effects=(),
        slowest_cells=(),
        reason=None,
        reason_text="",
        next_step="",
        not_comparable=dict(left_out),
        launches_wanted=None,
    )


# ── a verdict ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _standing(
    device: Device,
    group: Sequence[Device],
    cells: Sequence[_Cell],
    own: Mapping[str, Sibling],
    left_out: Counter[str],
) -> Standing:
    """own: what was judged of it in each mode, the gravest first."""
    mode, gravest = next(iter(own.items()))
    decides = min(gravest.effects.values(), key=lambda effect: (effect.p, effect.low))
    slow = [] if gravest.verdict is Verdict.OK else list(_slowest(cells, own))
    why = _why(device, slow[0][0]) if slow else None
    wanted = max(one.wanted for one in own.values())
    return Standing(
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        gpu_name=device.name,
        verdict=gravest.verdict,
        why=gravest.why if len(own) == 1 else f"{mode}: {gravest.why}",
        identical=len(group),
        percent=decides.ratio * 100,
        low_percent=decides.low * 100,
        high_percent=decides.high * 100,
        p=gravest.p,
        effects=tuple(
            _effect("", each, limit, effect) for each, one in own.items() for limit, effect in one.effects.items()
        ),
        slowest_cells=tuple(
            _effect(cell.name, cell.key.mode, cell.bound, effect) for cell, effect in slow[:SHOWN_CELLS]
        ),
        reason=None if why is None else why.reason,
        reason_text="" if why is None else why.words,
        next_step="" if why is None else NEXT_STEP.get(why.reason, _NEXT),
        not_comparable=dict(left_out),
        launches_wanted=decides.launches + wanted if wanted and gravest.verdict is Verdict.SUSPECT else None,
    )


def _slowest(cells: Sequence[_Cell], own: Mapping[str, Sibling]) -> list[tuple[_Cell, Effect]]:
    """The cells in which a GPU is slower, those beyond their margin by themselves first, then by how much."""
    alone = [
        (cell, own[cell.key.mode].alone[cell.name], cell.name in own[cell.key.mode].slow_cells)
        for cell in cells
        if cell.key.mode in own and cell.name in own[cell.key.mode].alone
    ]
    alone.sort(key=lambda item: (not item[2], item[1].ratio))
    return [(cell, effect) for cell, effect, _ in alone if effect.ratio < 1]


def _why(device: Device, cell: _Cell) -> Why:
    """By what the GPU was like in the cell where it shows most."""
    others = [_traits(point) for uuid, point in cell.points.items() if uuid != device.uuid]
    return why_beside.why(_work(cell.key), _traits(cell.points[device.uuid]), others)


def _traits(point: Point) -> Traits:
    device, metric = point.device, point.metric
    known = metric.sm_clock_mhz is not None
    link = None
    if device.pcie_generation is not None and device.pcie_width is not None:
        link = (device.pcie_generation, device.pcie_width)
    return Traits(
        reading=Reading(
            rate=median(metric.launch_values),
            clock_mhz=metric.sm_clock_mhz,
            temperature_c=metric.temperature_c,
            capped=float(_CAPPED in metric.clock_event_reasons) if known else None,
        ),
        memory_clock_mhz=metric.memory_clock_mhz,
        link=link,
        cores=device.cpus,
        launch_bound=metric.launch_bound,
    )


def _effect(cell: str, mode: str, bound: Bound, effect: Effect) -> SiblingEffect:
    return SiblingEffect(
        cell=cell,
        mode=mode,
        bound=bound,
        percent=effect.ratio * 100,
        low_percent=effect.low * 100,
        high_percent=effect.high * 100,
        margin_percent=effect.margin * 100,
        p=effect.p,
        cells=effect.cells,
        launches=effect.launches,
    )
