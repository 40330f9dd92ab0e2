"""Launches (measurements) on several devices at once (gangs): when they start, when their devices are free again. Pure.

    d0:  soak  links  memory         links is a gang. It waits in the queue of each of its devices, at the same place
    d1:  truth links  memory         among gangs. A device that reaches it stays idle until the others reach it too.
    d2:  soak  links  memory

No deadlock: whatever moves a gang moves it in all queues to the same place among the gangs there (turns.ends). A gang
with a quarantined device waits for `resume`: fewer links would be another test. A slot is a planned launch.
"""

from collections.abc import Collection, Mapping

from orchestrator.config.run_configuration import Slot
from orchestrator.state import queues
from orchestrator.state.slots import RunState, SlotStatus, with_device


def first(state: RunState, uuid: str) -> Slot | None:
    """Return the first slot in a device's queue whose other devices are not quarantined; None without such a slot."""
    return next((slot for slot in state.devices[uuid].queue if not _is_short(state, slot, uuid)), None)


def assembled(state: RunState, slot: Slot, taken: Collection[str]) -> bool:
    """Whether all devices of a gang are free and have it as their next slot. Always True for a slot on one device.

    taken: devices that launches about to start will use.
    """
    devices = state.cells[slot[0]].devices
    if len(devices) == 1:
        return True
    return all(
        state.devices[uuid].running is None and uuid not in taken and first(state, uuid) == slot for uuid in devices
    )


def left(state: RunState, uuid: str) -> RunState:
    """Return the state after the process on device `uuid` ended: it is free unless its launch still runs on others."""
    launch = state.devices[uuid].running
    if launch is not None and state.slots[state.launches[launch]].status is SlotStatus.RUNNING:
        return with_device(state, uuid, clean=True)
    return with_device(state, uuid, running=None)


def let_go(state: RunState, slot: Slot) -> RunState:
    """Return the state after the launch of `slot` ended: its devices whose process was already gone are free."""
    for uuid in state.cells[slot[0]].devices:
        if state.devices[uuid].clean:
            state = with_device(state, uuid, running=None, clean=False)
    return state


def without(state: RunState, slot: Slot) -> RunState:
    """Return the state without a slot in the queues of its devices. Queues that lack the slot stay as they are."""
    for uuid in state.cells[slot[0]].devices:
        if slot in (queue := state.devices[uuid].queue):
            state = with_device(state, uuid, queue=queues.without(queue, slot))
    return state


def into(state: RunState, slot: Slot, places: Mapping[str, int]) -> RunState:
    """Return the state with a slot inserted into queues. places: device → index in its queue before which to insert."""
    for uuid, at in places.items():
        queue = state.devices[uuid].queue
        state = with_device(state, uuid, queue=(*queue[:at], slot, *queue[at:]))
    return state


def _is_short(state: RunState, slot: Slot, uuid: str) -> bool:
    others = (other for other in state.cells[slot[0]].devices if other != uuid)
    return any(state.devices[other].quarantined for other in others)
