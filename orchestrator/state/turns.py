"""When a launch (measurement) may start in a run that measures both solo (one device at a time) and loaded. Pure.

    round 0                            round 1
    loaded: d0 d1 d2 side by side  ──▶ …         a turn (one mode in one round) starts when all devices have finished
    solo:   d0, then d1, then d2   ──▶ …         the turn before it: a device that reaches it earlier waits

No deadlock: a device at the earliest turn may always go on, and no device waits for a quarantined one.
"""

import itertools
from collections.abc import Iterable, Mapping

from orchestrator.config.run_configuration import Slot
from orchestrator.state import gangs
from orchestrator.state.slots import RunState
from protocol.cell import Mode

Turn = tuple[int, int]
"""A turn: (round, index of the mode within the round)."""


def are_taken(state: RunState) -> bool:
    """Whether devices take turns: the run measures both solo and loaded."""
    return len(state.modes) > 1


def of(state: RunState, slot: Slot) -> Turn:
    """Return the turn of a planned launch: (round, index of its mode in `state.modes`)."""
    return slot[1], state.modes.index(state.cells[slot[0]].mode)


def of_device(state: RunState, uuid: str) -> Turn | None:
    """Return the turn of a device's next launch. None if the device is quarantined, or has no launch waiting.

    Launches that also need another, quarantined device are ignored.
    """
    slot = None if state.devices[uuid].quarantined else gangs.first(state, uuid)
    return None if slot is None else of(state, slot)


def ends(state: RunState, slot: Slot) -> Mapping[str, int]:
    """Return where to insert a slot as the last one of its turn: device of the slot → index in the device's queue.

    The slot must be in no queue. The index is behind every gang (launch on several devices) of this turn or an earlier
    one, so gangs have the same order on all devices. Exception: if `slot` is a gang, and at least one queue of the run
    has gangs that are not in the order of their turns, the slot goes to the end of the queue of each of its devices.
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
    reached = [of(state, slot) for slot in state.devices[uuid].queue if _is_gang(state, slot)]
    return all(earlier <= later for earlier, later in itertools.pairwise(reached))


def _is_gang(state: RunState, slot: Slot) -> bool:
    return len(state.cells[slot[0]].devices) > 1


def may_begin(state: RunState, slot: Slot, starting: Iterable[Slot]) -> bool:
    """Whether a launch may start now: its turn has come, and a solo launch would not run at the same time as another.

    Always True in a run that is only solo or only loaded. starting: slots of launches that will start at the same time.
    """
    if not are_taken(state):
        return True
    at_work = [
        *starting,
        *(state.launches[device.running] for device in state.devices.values() if device.running is not None),
    ]
    modes = {state.cells[other].mode for other, _ in at_work}
    alone = state.cells[slot[0]].mode is Mode.SOLO
    if Mode.SOLO in modes or (alone and modes):
        return False
    reached = (of_device(state, uuid) for uuid in state.devices)
    return all(turn is None or turn >= of(state, slot) for turn in reached)
