"""Add a round to a burn-in whose planned launches are done before its time is up. Pure.

Devices that share cells (checks of links) get a round together. No round follows a round without any result. A slot is
a launch of a round, as (cell id, round).
"""

import random
from collections.abc import Callable, Iterable, Sequence

from orchestrator.config.run_configuration import Slot
from orchestrator.state import gangs
from orchestrator.state.slots import RunState, SlotStatus
from protocol.cell import Cell


def more(state: RunState, seed: int, fits: Callable[[Cell], bool]) -> tuple[Slot, ...]:
    """Return the launches (cell id, round) to add for devices with nothing left to do; () if there are none.

    Each of these devices, and each that shares cells with it, gets one more round, unless the latest round that
    contained all of their cells had no result at all. Quarantined devices get none. seed: for the random order of the
    cells. fits: whether a cell fits into the remaining time; cells that do not fit are omitted.
    """
    found: list[Slot] = []
    looked_at: set[str] = set()
    for uuid in state.devices:
        if uuid not in looked_at and _is_through(state, uuid):
            together = _sharing(state, uuid)
            looked_at.update(together)
            found += _round(state, together, seed, fits)
    return tuple(found)


def _is_through(state: RunState, uuid: str) -> bool:
    device = state.devices[uuid]
    return device.running is None and not device.quarantined and gangs.first(state, uuid) is None


def _sharing(state: RunState, uuid: str) -> Sequence[str]:
    shared = (cell.devices for cell in state.cells.values() if uuid in cell.devices)
    whole = (devices for devices in shared if not any(state.devices[other].quarantined for other in devices))
    return tuple(dict.fromkeys([uuid, *(other for devices in whole for other in devices)]))


def _round(state: RunState, uuids: Sequence[str], seed: int, fits: Callable[[Cell], bool]) -> Iterable[Slot]:
    """Return one more round for `uuids`, with its cells in the same random order on each device; () if there is none.

    There is none if the latest round that had all their cells measured none of them. uuids: devices that share cells.
    seed: for the random order of the cells. fits: whether a cell fits into the remaining time; others are omitted.
    """
    queues = [_cells_of(state, uuid, uuids) for uuid in uuids]
    ids = list(dict.fromkeys(cell.id for cells in queues for cell in cells))
    earlier = _so_far(state, ids)
    whole = next((number for number in earlier if all((cell_id, number) in state.slots for cell_id in ids)), None)
    if whole is None or not any(state.slots[cell_id, whole].status is SlotStatus.MEASURED for cell_id in ids):
        return ()
    number = earlier[0] + 1
    places = list(range(len(queues[0])))
    random.Random(f"{seed}/{number}").shuffle(places)
    ordered = (cells[place] for place in places for cells in queues)
    return tuple(dict.fromkeys((cell.id, number) for cell in ordered if fits(cell)))


def _so_far(state: RunState, ids: Iterable[str]) -> Sequence[int]:
    number = 0
    while any((cell_id, number) in state.slots for cell_id in state.cells):
        number += 1
    return [earlier for earlier in reversed(range(number)) if any((cell_id, earlier) in state.slots for cell_id in ids)]


def _cells_of(state: RunState, uuid: str, among: Sequence[str]) -> list[Cell]:
    mine = (cell for cell in state.cells.values() if uuid in cell.devices and set(cell.devices) <= set(among))
    return sorted(mine, key=lambda cell: len(cell.devices))
