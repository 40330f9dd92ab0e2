"""Launches on several devices at once: when one may begin, and when its devices may take another. Pure.

    d0:  soak  links  memory         links waits in the queue of each of its devices, at the same place among gangs.
    d1:  truth links  memory         A device that has come to it stays idle until the others have come to it too:
    d2:  soak  links  memory         then all of them begin it at the same moment.

It can neither starve nor block for ever. A device that has come to a gang takes nothing else, and each of the others
works off what it has before it. And whatever moves a gang (another try, want of time) moves it in all queues to the
same place among the gangs there (turns.ends): of two that share devices, all of them have the same one first.

Its devices leave it one by one, but none before its end: that of one process is not yet that of the launch, and what
the end means is not known. A device that took another launch meanwhile would keep the others waiting for a whole cell
where the gang comes first again, and the journal would have the next launch before it has the failure.

A gang of which one device is out of the run is passed over, and waits: `resume` gives the device another chance. It is
not made smaller, because fewer links are another test.
"""

from collections.abc import Collection, Mapping

from orchestrator.config.run_configuration import Slot
from orchestrator.state.slots import RunState, SlotStatus, with_device


def first(state: RunState, uuid: str) -> Slot | None:
    """What is next on a device; None where nothing is that could be made."""
    return next((slot for slot in state.devices[uuid].queue if not _is_short(state, slot, uuid)), None)


def assembled(state: RunState, slot: Slot, taken: Collection[str]) -> bool:
    """Whether every device of a slot is free for it, and has nothing before it. taken: those that are not."""
    devices = state.cells[slot[0]].devices
    if len(devices) == 1:
        return True
    return all(
        state.devices[uuid].running is None and uuid not in taken and first(state, uuid) == slot for uuid in devices
    )


def left(state: RunState, uuid: str) -> RunState:
    """The state after the process on a device is gone: others of its launch may still be there."""
    launch = state.devices[uuid].running
    if launch is not None and state.slots[state.launches[launch]].status is SlotStatus.RUNNING:
        return with_device(state, uuid, clean=True)
    return with_device(state, uuid, running=None)


def let_go(state: RunState, slot: Slot) -> RunState:
    """The state in which nobody waits for the end of a launch: it is known."""
    for uuid in state.cells[slot[0]].devices:
        if state.devices[uuid].clean:
            state = with_device(state, uuid, running=None, clean=False)
    return state


def without(state: RunState, slot: Slot) -> RunState:
    """The state with a slot in no queue."""
    for uuid in state.cells[slot[0]].devices:
        queue = state.devices[uuid].queue
        if queue[:1] == (slot,):  # as a rule: then the others are not looked at
            state = with_device(state, uuid, queue=queue[1:])
        elif slot in queue:
            state = with_device(state, uuid, queue=tuple(other for other in queue if other != slot))
    return state


def into(state: RunState, slot: Slot, places: Mapping[str, int]) -> RunState:
    """The state with a slot in queues that do not have it. places: device → how many are before it there."""
    for uuid, at in places.items():
        queue = state.devices[uuid].queue
        state = with_device(state, uuid, queue=(*queue[:at], slot, *queue[at:]))
    return state


def _is_short(state: RunState, slot: Slot, uuid: str) -> bool:
    """Whether another device of the slot is out of the run."""
    others = (other for other in state.cells[slot[0]].devices if other != uuid)
    return any(state.devices[other].quarantined for other in others)
