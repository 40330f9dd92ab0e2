"""Compare each GPU with the identical GPUs of the run (siblings): verdict (stats/stragglers.py), cause, remedy. Pure.

A STRAGGLER is slower than its siblings. A SUSPECT may be slower: more launches decide. SPLIT: the GPUs form a fast and
a slow group. A cell is a model in one configuration.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType
from typing import Final

import msgspec

from orchestrator.analysis import sibling_cells, throttled_gpus
from orchestrator.analysis.cross_gpu import NO_VERDICT_ON_CPU, THROTTLED, Point, SideBySide
from orchestrator.analysis.sibling_cells import JudgedCell
from orchestrator.config.naming import plural
from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures.comparisons import SiblingEffect, Standing
from orchestrator.gpu.health.judges import Action
from orchestrator.state.added_launches import Doubt
from orchestrator.stats import sibling_reasons
from orchestrator.stats.sibling_reasons import Traits
from orchestrator.stats.slowdown_reasons import Reading, Reason, Why
from orchestrator.stats.stragglers import LEAST_GPUS, Bound, Effect, Sibling, SiblingVerdict
from protocol.cell import Device, DeviceKind

SHOWN_CELLS: Final = 5
ON_A_SLICE: Final = "slices of a GPU get no performance verdict, because they share power and clocks"
_NOTHING: Final = Sibling(gpu="", verdict=SiblingVerdict.NONE, why="", effects={}, slow_cells={})
_GRAVEST_FIRST: Final = (
    SiblingVerdict.STRAGGLER,
    SiblingVerdict.IN_CELLS,
    SiblingVerdict.SPLIT,
    SiblingVerdict.SUSPECT,
    SiblingVerdict.OK,
    SiblingVerdict.NONE,
)
OF_A_SPLIT: Final = (
    "compare a GPU of each group with a baseline of this board (run --solo --compare-baseline), or with another node. "
    "Until then consider neither group healthy"
)
NEXT_STEP: Final = {
    Reason.HEAT: Action.COOL.advice,
    Reason.POWER: "swap it with another GPU: if the slot stays slow, check the slot's power supply, else the board",
    Reason.CLOCK: "compare with a sibling: nvidia-smi -q -d CLOCK,PERFORMANCE",
    Reason.LINK: "reseat the board or its riser, and check the slot's settings in the BIOS",
    Reason.MEMORY: "check its memory errors in the chapter on health, then run a long burn-in: --burn-in 8h",
    Reason.HOST: "find other processes on the host's cores near the GPU, and check the governor of the cores (doctor)",
}
_OF_A_LIMIT: Final = (
    "set the power limit of its siblings, or compare it with GPUs of the same limit: nvidia-smi -q -d POWER"
)
_NEXT: Final = "run a burn-in (--burn-in 1h), which verifies the results of the GPU, and check its health"


def standings(
    devices: Sequence[Device], sides: Sequence[SideBySide], added: Mapping[str, int] = MappingProxyType({})
) -> tuple[Standing, ...]:
    """Return a verdict for each device compared with its siblings, in the order of `devices`; NONE if not comparable.

    sides: results of each cell on identical devices. added: UUID → number of launches beyond the plan, which becomes
    `launches_added` of the verdict; 0 for a UUID that is not in it.
    """
    by_uuid = {
        standing.gpu_uuid: standing for group, mine in _alike(devices, sides) for standing in _of_group(group, mine)
    }
    more = {device.uuid: added.get(device.uuid, 0) for device in devices}
    return tuple(msgspec.structs.replace(by_uuid[uuid], launches_added=number) for uuid, number in more.items())


def doubts(devices: Sequence[Device], sides: Sequence[SideBySide]) -> Iterator[Doubt]:
    """Yield a Doubt for each pair of a SUSPECT GPU and a cell whose further launches should decide about this GPU.

    A GPU with a graver verdict in one of the modes is not SUSPECT. sides: results of each cell on identical devices.
    """
    for group, mine in _alike(devices, sides):
        cells = sibling_cells.judged_cells(mine)
        ids = [tuple(point.metric.cell for point in side.points) for side in mine]
        by_name = {(cell.key.mode, cell.name): own_ids for cell, own_ids in zip(cells, ids, strict=True)}
        judged = sibling_cells.by_mode(cells)
        for device in group:
            own = {} if _no_verdict(device, group) else _by_gravity(device, judged)
            if next(iter(own.values()), _NOTHING).verdict is SiblingVerdict.SUSPECT:
                for mode, sibling in own.items():
                    yield from (Doubt(device.uuid, by_name[mode, name]) for name in sibling.in_question)


def _alike(devices: Sequence[Device], sides: Sequence[SideBySide]) -> Iterator[tuple[list[Device], list[SideBySide]]]:
    alike: dict[tuple[object, ...], list[Device]] = defaultdict(list)
    for device in devices:
        alike[device.kind, device.name, device.memory_total_bytes].append(device)
    for kind, group in alike.items():
        mine = [side for side in sides if side.group[:3] == kind and WORKLOADS[side.group.cell.phase].sibling_verdict]
        yield group, mine


def _of_group(group: Sequence[Device], sides: Sequence[SideBySide]) -> Iterator[Standing]:
    cells = sibling_cells.judged_cells(sides)
    judged = sibling_cells.by_mode(cells)
    missing: dict[str, Counter[str]] = defaultdict(Counter)
    for side in sides:
        for uuid, reason in sibling_cells.excluded_gpus(side).items():
            missing[uuid][reason] += 1
    slowed = throttled_gpus.throttled_cells(sides)
    for device in group:
        excluded, down = missing[device.uuid], throttled_gpus.explain_throttling(slowed.get(device.uuid, ()))
        if why := _no_verdict(device, group):
            yield _without(device, group, why, excluded, down)
            continue
        own = _by_gravity(device, judged)
        if next(iter(own.values()), _NOTHING).verdict is SiblingVerdict.NONE:
            yield _without(device, group, _why_not(device, group, cells, missing), excluded, down)
        else:
            yield _standing(device, group, cells, own, excluded=excluded, down=down)


def _by_gravity(device: Device, judged: Mapping[str, Mapping[str, Sibling]]) -> dict[str, Sibling]:
    own = {mode: by_gpu[device.uuid] for mode, by_gpu in judged.items() if device.uuid in by_gpu}
    order = sorted(own, key=lambda mode: (_GRAVEST_FIRST.index(own[mode].verdict), own[mode].p or 0.0))
    return {mode: own[mode] for mode in order}


# ── no verdict ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _no_verdict(device: Device, group: Sequence[Device]) -> str:
    if device.kind is DeviceKind.CPU:
        return NO_VERDICT_ON_CPU
    if device.slice_of is not None:
        return ON_A_SLICE
    if len(group) < LEAST_GPUS:
        only = "the only GPU of its kind" if len(group) == 1 else f"only {len(group)} identical GPUs"
        return (
            f"{only}, and the comparison needs at least {LEAST_GPUS}; compare with a baseline instead: "
            "--solo --compare-baseline FILE"
        )
    return ""


def _why_not(
    device: Device, group: Sequence[Device], cells: Sequence[JudgedCell], missing: Mapping[str, Counter[str]]
) -> str:
    mine = [cell for cell in cells if device.uuid in cell.points_with(device.uuid)]
    if not mine:
        facts = "; ".join(reason for reason, _ in missing[device.uuid].most_common())
        return f"not comparable: {facts}" if facts else "no comparable cell was measured on it"
    fullest = max(mine, key=lambda cell: len(cell.points_with(device.uuid)))
    comparable = fullest.points_with(device.uuid)
    if len(comparable) < LEAST_GPUS:
        others = [other for other in group if other.uuid not in comparable]
        without = ", ".join(f"{other.label} ({_obstacle(other, fullest, missing)})" for other in others)
        left = plural(len(comparable), "comparable GPU")
        return f"without {without}, only {left}, and a verdict needs {LEAST_GPUS}"
    return "one launch of each cell: no verdict. Measure again with --launches 3"


def _obstacle(device: Device, cell: JudgedCell, missing: Mapping[str, Counter[str]]) -> str:
    """Return why a GPU has no comparable result in `cell`: it was throttled, or the reason most frequent on this GPU.

    missing: UUID → reason → number of the GPU's cells that were excluded for it. A GPU without any gets "no result".
    """
    if device.uuid in cell.held:
        return THROTTLED
    return next((reason for reason, _ in missing[device.uuid].most_common(1)), "no result")


def _without(device: Device, group: Sequence[Device], why: str, excluded: Counter[str], down: Why | None) -> Standing:
    cause = down or throttled_gpus.explain_power_limit(device, group)
    return Standing(
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        gpu_name=device.name,
        verdict=SiblingVerdict.NONE,
        why=why,
        identical=len(group),
        percent=None,
        low_percent=None,
        high_percent=None,
        p=None,
        effects=(),
        slowest_cells=(),
        reason=None if cause is None else cause.reason,
        reason_text="" if cause is None else cause.words,
        next_step="" if cause is None else _OF_A_LIMIT if down is None else NEXT_STEP[cause.reason],
        not_comparable=dict(excluded),
        launches_wanted=None,
    )


# ── a verdict ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _standing(
    device: Device,
    group: Sequence[Device],
    cells: Sequence[JudgedCell],
    own: Mapping[str, Sibling],
    *,
    excluded: Counter[str],
    down: Why | None,
) -> Standing:
    mode, gravest = next(iter(own.items()))
    decides = min(gravest.effects.values(), key=lambda effect: (effect.p, effect.low))
    is_even = gravest.verdict in (SiblingVerdict.OK, SiblingVerdict.SPLIT)
    slow = [] if is_even else list(_slowest(cells, own))
    cause = _why(device, slow[0][0], down) if slow else down
    if gravest.faster and device.uuid not in gravest.faster:
        cause = _why_behind(device, gravest.faster, [cell for cell in cells if cell.key.mode == mode]) or cause
    wanted = max(sibling.wanted for sibling in own.values())
    faster = [other.label for other in group if other.uuid in gravest.faster]
    why = f"{gravest.why} (faster: {', '.join(faster)})" if faster else gravest.why
    next_step = OF_A_SPLIT if faster else "" if cause is None else NEXT_STEP.get(cause.reason, _NEXT)
    return Standing(
        gpu_uuid=device.uuid,
        gpu_id=device.gpu_id,
        gpu_name=device.name,
        verdict=gravest.verdict,
        why=why if len(own) == 1 else f"{mode}: {why}",
        identical=len(group),
        percent=decides.ratio * 100,
        low_percent=decides.low * 100,
        high_percent=decides.high * 100,
        p=gravest.p,
        effects=tuple(
            _effect("", each, limit, effect)
            for each, sibling in own.items()
            for limit, effect in sibling.effects.items()
        ),
        slowest_cells=tuple(
            _effect(cell.name, cell.key.mode, cell.bound, effect) for cell, effect in slow[:SHOWN_CELLS]
        ),
        reason=None if cause is None else cause.reason,
        reason_text="" if cause is None else cause.words,
        next_step=next_step,
        not_comparable=dict(excluded),
        launches_wanted=decides.launches + wanted if wanted and gravest.verdict is SiblingVerdict.SUSPECT else None,
    )


def _slowest(cells: Sequence[JudgedCell], own: Mapping[str, Sibling]) -> list[tuple[JudgedCell, Effect]]:
    """Return (cell, rate relative to the siblings) of each cell in which one GPU is slower than its siblings.

    The cells that its verdict counts as slow come first, then the others, each sorted from slow to fast. own: mode →
    verdict on this GPU.
    """
    alone = [
        (cell, own[cell.key.mode].alone[cell.name], cell.name in own[cell.key.mode].slow_cells)
        for cell in cells
        if cell.key.mode in own and cell.name in own[cell.key.mode].alone
    ]
    alone.sort(key=lambda item: (not item[2], item[1].ratio))
    return [(cell, effect) for cell, effect, _ in alone if effect.ratio < 1]


def _why_behind(device: Device, faster: frozenset[str], cells: Sequence[JudgedCell]) -> Why | None:
    """Explain by its slowest cell why a GPU is slower than the GPUs `faster` (UUIDs); None if they share no cell."""
    ratios = []
    for cell in cells:
        own = cell.points_with(device.uuid).get(device.uuid)
        ahead = [cell.points[uuid] for uuid in faster & set(cell.points)]
        if own is not None and ahead:
            typical = median(median(point.metric.launch_values) for point in ahead)
            behind = median(own.metric.launch_values) / typical
            ratios.append((behind, cell, own, ahead))
    if not ratios:
        return None
    _, cell, own, ahead = min(ratios, key=lambda compared: compared[0])
    return sibling_reasons.why(sibling_cells.work(cell.key), _traits(own), [_traits(point) for point in ahead])


def _why(device: Device, cell: JudgedCell, down: Why | None) -> Why:
    if down is not None and device.uuid in cell.held:
        return down
    others = [_traits(point) for uuid, point in cell.points.items() if uuid != device.uuid]
    why = sibling_reasons.why(sibling_cells.work(cell.key), _traits(cell.points[device.uuid]), others)
    return why if down is None else replace(why, words=f"{why.words}; and {down.words}")


def _traits(point: Point) -> Traits:
    device, metric = point.device, point.metric
    has_telemetry = metric.sm_clock_mhz is not None
    link = None
    if device.pcie_generation is not None and device.pcie_width is not None:
        link = (device.pcie_generation, device.pcie_width)
    return Traits(
        reading=Reading(
            rate=median(metric.launch_values),
            clock_mhz=metric.sm_clock_mhz,
            temperature_c=metric.temperature_c,
            capped=float(sibling_cells.CAPPED in metric.clock_event_reasons) if has_telemetry else None,
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
