"""When a burn-in begins another round, because what was planned is through and its time is not up. Pure.

    a GPU was taken out, and the cells that all share are passed over ─┐
    cells fail at once, are refused, or do not fit ────────────────────┼─▶ nothing more to launch ─▶ one more round
    a burn-in that is resumed, whose plan was through before ──────────┘

The plan has as many rounds as there is time for where every cell lasts as long as it should. How many are needed where
some do not, nobody knows before; a plan for the worst case would be too large by far. So a round is added where a
device is through, with what there is still time for: for all devices that share cells at once, since they go in step,
and for each by itself where they share none any more, because one of them is out.

A round of which nothing came is the last one: a device on which nothing works is not started every second for hours.
Devices that share cells have it in common, and only one with all of their cells says so: at the end of the time a round
has what fits.

The number of a round is one more than the last of those who make it, also where one of them was without some rounds:
numbers never go back, and coherence.py takes no other ones.
"""

import random
from collections.abc import Callable, Iterable, Sequence

from orchestrator.config.run_configuration import Slot
from orchestrator.state import gangs
from orchestrator.state.slots import RunState, SlotStatus
from protocol.cell import Cell


def more(state: RunState, seed: int, fits: Callable[[Cell], bool]) -> tuple[Slot, ...]:
    """The launches to add, in the order in which each device makes its own. fits: whether there is time for a cell."""
    found: list[Slot] = []
    looked_at: set[str] = set()
    for uuid in state.devices:
        if uuid not in looked_at and _is_through(state, uuid):
            together = _together(state, uuid)
            looked_at.update(together)
            found += _round(state, together, seed, fits)
    return tuple(found)


def _is_through(state: RunState, uuid: str) -> bool:
    """Whether a device may work and has nothing to do."""
    device = state.devices[uuid]
    return device.running is None and not device.quarantined and gangs.first(state, uuid) is None


def _together(state: RunState, uuid: str) -> Sequence[str]:
    """The devices with which this one shares cells that can be made, itself first."""
    shared = (cell.devices for cell in state.cells.values() if uuid in cell.devices)
    whole = (devices for devices in shared if not any(state.devices[other].quarantined for other in devices))
    return tuple(dict.fromkeys([uuid, *(other for devices in whole for other in devices)]))


def _round(state: RunState, uuids: Sequence[str], seed: int, fits: Callable[[Cell], bool]) -> Iterable[Slot]:
    """One more of these devices, in the same random order on each; nothing where nothing came of their last one."""
    queues = [_cells_of(state, uuid, uuids) for uuid in uuids]
    ids = list(dict.fromkeys(cell.id for cells in queues for cell in cells))
    earlier = _so_far(state, ids)
    whole = next((number for number in earlier if all((one, number) in state.slots for one in ids)), None)
    if whole is None or not any(state.slots[one, whole].status is SlotStatus.MEASURED for one in ids):
        return ()
    number = earlier[0] + 1
    places = list(range(len(queues[0])))
    random.Random(f"{seed}/{number}").shuffle(places)
    ordered = (cells[place] for place in places for cells in queues)
    return tuple(dict.fromkeys((cell.id, number) for cell in ordered if fits(cell)))


def _so_far(state: RunState, ids: Iterable[str]) -> Sequence[int]:
    """The rounds that any of these cells had, the last one first. No round of the run is without any cell."""
    number = 0
    while any((one, number) in state.slots for one in state.cells):
        number += 1
    return [earlier for earlier in reversed(range(number)) if any((one, earlier) in state.slots for one in ids)]


def _cells_of(state: RunState, uuid: str, among: Sequence[str]) -> list[Cell]:
    """What a device has in a round, at the same places as the others of its kind: what it shares with others last."""
    mine = (cell for cell in state.cells.values() if uuid in cell.devices and set(cell.devices) <= set(among))
    return sorted(mine, key=lambda cell: len(cell.devices))
