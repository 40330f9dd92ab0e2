"""Pair the devices and cells (models in one configuration) of two runs. Pure.

Devices of two runs are paired by UUID, the others in order within each GPU model, the rest in order. With a baseline,
every device of the run is paired with cells of the same device, else of its GPU model, else of any (pooling.py).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from orchestrator.compare import pooling
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.run_figures import Side, SideDevice
from orchestrator.figures.keys import CellKey

_SAME: Final[tuple[Callable[[SideDevice], str], ...]] = (
    lambda one: one.gpu_uuid,
    lambda one: one.gpu_name,
    lambda _: "",
)
_Places = dict[tuple[str, CellKey], Place]
_Devices = list[SideDevice]


class Beside(NamedTuple):
    """Cells and devices of two runs: pairs (of the first run, of the second run), and those without a partner.

    pairs: of cells, even of those without a result. devices: pairs of devices. only_before, only_after: cells that have
    a result but no partner. alone_before, alone_after: devices without a partner.
    """

    pairs: list[tuple[Place, Place]]
    only_before: list[Place]
    only_after: list[Place]
    devices: list[tuple[SideDevice, SideDevice]]
    alone_before: _Devices
    alone_after: _Devices


def beside(before: Side, after: Side) -> Beside:
    """Pair the cells and devices of two sides, in the order of `before`, or of `after` if `before` is a baseline."""
    return _with_baseline(before, after) if before.is_baseline else _of_runs(before, after)


def places(side: Side) -> _Places:
    """Return (UUID, key) → cell with its device, for every cell of a run or baseline."""
    known = {device.gpu_uuid: device for device in side.devices}
    return {
        (cell.gpu_uuid, cell.key): Place(known[cell.gpu_uuid], cell) for cell in side.cells if cell.gpu_uuid in known
    }


def by_key(side: Side) -> dict[CellKey, list[Place]]:
    """Return key → cells of a side with this key, each with its device: one for each device."""
    found: dict[CellKey, list[Place]] = {}
    for place in places(side).values():
        found.setdefault(place.cell.key, []).append(place)
    return found


def _of_runs(before: Side, after: Side) -> Beside:
    paired = _paired(before.devices, after.devices)
    partners = {old.gpu_uuid: new.gpu_uuid for old, new in paired}
    first, second = places(before), places(after)
    pairs: list[tuple[Place, Place]] = []
    only_before: list[Place] = []
    for (uuid, key), place in first.items():
        partner = second.pop((partners[uuid], key), None) if uuid in partners else None
        if partner is not None:
            pairs.append((place, partner))
        elif place.cell.values:
            only_before.append(place)
    only_after = [place for place in second.values() if place.cell.values]
    olds, news = zip(*paired, strict=True) if paired else ((), ())
    return Beside(pairs, only_before, only_after, paired, _left(before, olds), _left(after, news))


def _paired(before: Sequence[SideDevice], after: Sequence[SideDevice]) -> list[tuple[SideDevice, SideDevice]]:
    found: dict[str, SideDevice] = {}
    for same in _SAME:
        taken = {new.gpu_uuid for new in found.values()}
        left: dict[str, deque[SideDevice]] = {}
        for new in after:
            if new.gpu_uuid not in taken:
                left.setdefault(same(new), deque()).append(new)
        for old in before:
            if old.gpu_uuid not in found and left.get(same(old)):
                found[old.gpu_uuid] = left[same(old)].popleft()
    return [(old, found[old.gpu_uuid]) for old in before if old.gpu_uuid in found]


def _with_baseline(baseline: Side, run: Side) -> Beside:
    """Pair the cells of a run with those of a baseline, in which devices of one GPU model count as one device.

    If a GPU whose baseline results were compared is also in the run, run and baseline are of the same node. Then each
    other GPU of the baseline has no partner. On another node, each GPU of the baseline with a cell that was compared
    for its GPU model has one.
    """
    known = by_key(baseline)
    pairs: list[tuple[Place, Place]] = []
    only_run: list[Place] = []
    held: set[tuple[str, CellKey]] = set()
    stood: dict[str, dict[str, SideDevice]] = {}
    for place in places(run).values():
        if found := pooling.partners(known.get(place.cell.key, ()), place):
            pairs.append((pooling.combined(found), place))
            held |= {(one.device.gpu_name, one.cell.key) for one in found}
            stood.setdefault(place.device.gpu_uuid, {}).update({one.device.gpu_uuid: one.device for one in found})
        elif place.cell.values:
            only_run.append(place)
    lacking: dict[tuple[str, CellKey], list[Place]] = {}
    compared = {uuid for devices in stood.values() for uuid in devices}
    own_node = not compared.isdisjoint(stood)
    taken: _Devices = []
    for place in places(baseline).values():
        if (kind := (place.device.gpu_name, place.cell.key)) in held:
            taken += [place.device] if place.device.gpu_uuid in compared or not own_node else []
        elif place.cell.values:
            lacking.setdefault(kind, []).append(place)
    mine = [device for device in run.devices if device.gpu_uuid in stood]
    return Beside(
        pairs,
        [pooling.combined(found) for found in lacking.values()],
        only_run,
        [(pooling.device(tuple(stood[new.gpu_uuid].values())), new) for new in mine],
        _left(baseline, taken),
        _left(run, mine),
    )


def _left(side: Side, taken: Iterable[SideDevice]) -> _Devices:
    uuids = {device.gpu_uuid for device in taken}
    return [device for device in side.devices if device.gpu_uuid not in uuids]
