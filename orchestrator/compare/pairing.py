"""Which device of one run stands beside which of another, and so which cells. Pure.

the same UUID ──▶ else the same model of GPU, in the order of their numbers ──▶ else whoever is left, in that order
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from orchestrator.compare.facts import Place
from orchestrator.compare.side import Side, SideDevice
from orchestrator.report.keys import CellKey

_SAME: Final[tuple[Callable[[SideDevice], str], ...]] = (
    lambda one: one.gpu_uuid,
    lambda one: one.gpu_name,
    lambda _: "",
)
_Places = dict[tuple[str, CellKey], Place]


def devices(before: Sequence[SideDevice], after: Sequence[SideDevice]) -> dict[str, str]:
    """UUID before → UUID after, for as many as the smaller run has, in the order of the first run."""
    found: dict[str, str] = {}
    for same in _SAME:
        taken = set(found.values())
        left: dict[str, deque[str]] = {}
        for new in after:
            if new.gpu_uuid not in taken:
                left.setdefault(same(new), deque()).append(new.gpu_uuid)
        for old in before:
            if old.gpu_uuid not in found and left.get(same(old)):
                found[old.gpu_uuid] = left[same(old)].popleft()
    return {device.gpu_uuid: found[device.gpu_uuid] for device in before if device.gpu_uuid in found}


def places(side: Side) -> _Places:
    """Every cell of a run on its device."""
    known = {device.gpu_uuid: device for device in side.devices}
    return {
        (cell.gpu_uuid, cell.key): Place(known[cell.gpu_uuid], cell) for cell in side.cells if cell.gpu_uuid in known
    }


class Cells(NamedTuple):
    """The pairs, in the order of the first run, and the cells of one run alone that have a result there."""

    pairs: list[tuple[Place, Place]]
    only_before: list[Place]
    only_after: list[Place]


def cells(before: Side, after: Side, paired: dict[str, str]) -> Cells:
    """Which cell stands beside which. paired: UUID before → UUID after."""
    first, second = places(before), places(after)
    found = Cells([], [], [])
    for (uuid, key), place in first.items():
        partner = second.pop((paired[uuid], key), None) if uuid in paired else None
        if partner is not None:
            found.pairs.append((place, partner))
        elif place.cell.values:
            found.only_before.append(place)
    found.only_after.extend(place for place in second.values() if place.cell.values)
    return found


def by_key(side: Side) -> dict[CellKey, list[Place]]:
    """The cells of a run, those of all its devices together."""
    found: dict[CellKey, list[Place]] = {}
    for place in places(side).values():
        found.setdefault(place.cell.key, []).append(place)
    return found
