"""Who may begin while others work, in a run that measures both how devices do alone and how they do together. Pure.

    round 0                            round 1
    loaded: d0 d1 d2 side by side  ──▶ …         a turn begins when all devices are through with the one before it:
    solo:   d0, then d1, then d2   ──▶ …         whoever has come to it earlier waits

Without that a device that is through with its loaded launches would leave those of the others half loaded, or work
beside what should be alone. Where there is one mode, devices go on by themselves.

It cannot block for ever: of the devices that have something to do, one is at the earliest turn, and nobody keeps it
from going on. A device that is out of the run is not waited for.
"""

import itertools
from collections.abc import Iterable, Mapping

from orchestrator.config.run_configuration import Slot
from orchestrator.state import gangs
from orchestrator.state.slots import RunState
from protocol.cell import Mode

Turn = tuple[int, int]
"""A round, and the place of a mode within it."""


def are_taken(state: RunState) -> bool:
    """Whether devices wait for each other at all."""
    return len(state.modes) > 1


def of(state: RunState, slot: Slot) -> Turn:
    """The turn to which a planned launch belongs."""
    return slot[1], state.modes.index(state.cells[slot[0]].mode)


def of_device(state: RunState, uuid: str) -> Turn | None:
    """The turn that a device has come to; None where it has nothing to do."""
    slot = None if state.devices[uuid].quarantined else gangs.first(state, uuid)
    return None if slot is None else of(state, slot)


def ends(state: RunState, slot: Slot) -> Mapping[str, int]:
    """Where in the queue of each of its devices the turn of a slot ends, which is in none of them.

    Behind every gang of that turn or an earlier one, and before the first slot of a later one. So no two devices have
    gangs in another order, as long as their turns are in order everywhere. One that was postponed comes behind later
    ones: then a gang goes to the end, as that one did.
    """
    devices = state.cells[slot[0]].devices
    if len(devices) > 1 and not all(_in_order(state, uuid) for uuid in state.devices):
        return {uuid: len(state.devices[uuid].queue) for uuid in devices}
    return {uuid: _end_of(state, of(state, slot), uuid) for uuid in devices}


def _end_of(state: RunState, turn: Turn, uuid: str) -> int:
    queue = state.devices[uuid].queue
    gangs_before = (at for at, other in enumerate(queue) if _is_gang(state, other) and of(state, other) <= turn)
    begin = max(gangs_before, default=-1) + 1
    return next((at for at in range(begin, len(queue)) if of(state, queue[at]) > turn), len(queue))


def _in_order(state: RunState, uuid: str) -> bool:
    """Whether the gangs of a device come turn by turn."""
    reached = [of(state, slot) for slot in state.devices[uuid].queue if _is_gang(state, slot)]
    return all(one <= other for one, other in itertools.pairwise(reached))


def _is_gang(state: RunState, slot: Slot) -> bool:
    return len(state.cells[slot[0]].devices) > 1


def may_begin(state: RunState, slot: Slot, found: Iterable[Slot]) -> bool:
    """Whether a launch may be made now. found: those that are about to be made beside it."""
    if not are_taken(state):
        return True
    at_work = [*found, *(state.launches[one.running] for one in state.devices.values() if one.running is not None)]
    modes = {state.cells[other].mode for other, _ in at_work}
    alone = state.cells[slot[0]].mode is Mode.SOLO
    if Mode.SOLO in modes or (alone and modes):
        return False
    reached = (of_device(state, uuid) for uuid in state.devices)
    return all(turn is None or turn >= of(state, slot) for turn in reached)
