"""The run: which launch is next on which device, and what an outcome means for the rest. Pure.

    plan ──begin──▶ RunState ──next_launches──▶ launches to make          the loop journals Started, then makes them
                       ▲  └── Ended, Freed, Dropped, StopAsked, … ── step ─┐
                       └───────────────────────────────────────────────────┘

A slot is one planned launch of a cell: (id of the cell, round). It is settled when it has a result, when it is referred
to another cell that measures the same, when it does not fit, when its failure is final, or when it is dropped for want
of time. One that scans for the batch size takes many launches. recovery.py feeds the journal's starts and ends through
the same functions, so there is one way to know where a run stands.
"""

import msgspec

from orchestrator import scan
from orchestrator.configuration import Plan
from orchestrator.policy import POLICY, Reaction
from orchestrator.scan import Figures, Tried
from orchestrator.slots import (
    DeviceState,
    Dropped,
    Ended,
    Event,
    Freed,
    NextLaunch,
    Postponed,
    Quarantined,
    RunState,
    Slot,
    SlotState,
    SlotStatus,
    Started,
    StopAsked,
    Withdrawn,
)
from protocol.cell import AUTO, Cell, Mode
from protocol.failure import Category, Failure, Phase


def begin(plan: Plan) -> RunState:
    """The state before the first launch."""
    cells = {cell.id: cell for cell in plan.cells}
    return RunState(
        cells=cells,
        slots={
            slot: SlotState(batch_size=cells[slot[0]].batch_size) for queue in plan.order.values() for slot in queue
        },
        devices={device: DeviceState(queue=queue) for device, queue in plan.order.items()},
        rooms=plan.rooms,
        solo=any(cell.mode is Mode.SOLO for cell in plan.cells),
    )


def worth_repeating(state: RunState, launch: int, category: Category) -> bool:
    """Whether a result that is in doubt for this reason is to be measured again, or has been often enough.

    A step of a scan for the batch size is not: it has told what it was made for, whether the size fits.
    """
    of = state.launches[launch]
    slot, scans = state.slots[of], state.cells[of[0]].batch_size == AUTO
    enough = slot.failures.count(category) >= POLICY[category].retries
    return slot.status is SlotStatus.MEASURED and not scans and not enough


def next_launches(state: RunState) -> tuple[RunState, tuple[NextLaunch, ...]]:
    """What to launch now, at most one for each idle device, and the state after settling slots that need no launch.

    The loop must feed back Started for each of them before it asks again.
    """
    if state.stopping:
        return state, ()
    found: list[NextLaunch] = []
    # One at a time, devices take turns: none is kept for the end, when a time limit may be near.
    in_turn = (
        sorted(state.devices.items(), key=lambda item: -len(item[1].queue)) if state.solo else state.devices.items()
    )
    for uuid, device in in_turn:
        if device.running is not None or device.quarantined or (state.solo and (state.busy or found)):
            continue
        state, launch = _next_on(state, uuid, len(state.launches) + len(found))
        if launch is not None:
            found.append(launch)
    return state, tuple(found)


def step(state: RunState, event: Event) -> RunState:
    """The state after `event`.

    An event that makes no sense (the end of a launch that is not running) changes nothing: it is kept in the journal.
    """
    match event:
        case Started(launch, slot, device, batch_size):
            return _started(state, launch, slot, device, batch_size)
        case Ended(launch, failure, figures):
            return _ended(state, launch, failure, figures)
        case Freed(device):
            return _with_device(state, device, running=None)
        case Quarantined(device, reason):
            return _with_device(state, device, quarantined=reason)
        case Dropped(slot):
            return _dropped(state, slot)
        case Postponed(slot):
            return _again(state, slot) if state.slots[slot].status is SlotStatus.WAITING else state
        case Withdrawn(launch, failure):
            return _withdrawn(state, launch, failure)
        case StopAsked():
            return msgspec.structs.replace(state, stopping=True)


def _next_on(state: RunState, uuid: str, number: int) -> tuple[RunState, NextLaunch | None]:
    """The first slot of a device's queue that needs a launch; those before it that need none are settled."""
    while queue := state.devices[uuid].queue:
        slot = queue[0]
        cell = state.cells[slot[0]]
        if cell.batch_size == AUTO:
            return state, _scanning(state, slot, number)
        batch_size = _fitting(state, cell)
        if batch_size < cell.batch_size and (other := _stand_in(state, cell, batch_size)) is not None:
            state = _settle(state, slot, SlotStatus.REFERRED, refers_to=other)
        elif batch_size == 0:
            state = _settle(state, slot, SlotStatus.DOES_NOT_FIT)
        else:
            smaller = msgspec.structs.replace(cell, batch_size=batch_size)
            attempt = state.attempts.get(slot[0], 0) + 1
            return state, NextLaunch(slot=slot, cell=smaller, launch=number, attempt=attempt)
        state = _with_device(state, uuid, queue=state.devices[uuid].queue[1:])
    return state, None


def _scanning(state: RunState, slot: Slot, number: int) -> NextLaunch:
    """The next step of a scan: one that waits is not at its end."""
    size = _next_size(state, slot)
    assert size is not None
    attempt = state.attempts.get(slot[0], 0) + 1
    cell = msgspec.structs.replace(state.cells[slot[0]], batch_size=size)
    return NextLaunch(slot=slot, cell=cell, launch=number, attempt=attempt, scans=True)


def _fitting(state: RunState, cell: Cell) -> int:
    """The batch size to run: the planned one, halved until it is below what is known not to fit; 0 when none is."""
    limit = state.too_large.get(_family(cell))
    batch_size = cell.batch_size
    while limit is not None and batch_size >= limit:
        batch_size //= 2
    return batch_size


def _stand_in(state: RunState, cell: Cell, fitting: int) -> str | None:
    """The planned cell on the way from `cell`'s batch size down to `fitting`: what it ends as holds for both."""
    batch_size = cell.batch_size // 2
    while batch_size >= max(fitting, 1):
        smaller = msgspec.structs.replace(cell, batch_size=batch_size).id
        if smaller in state.cells:
            return smaller
        batch_size //= 2
    return None


def _started(state: RunState, launch: int, slot: Slot, device: str, batch_size: int) -> RunState:
    queue = tuple(other for other in state.devices[device].queue if other != slot)
    state = _with_device(state, device, queue=queue, running=launch)
    before = state.slots[slot]
    running = msgspec.structs.replace(
        before, status=SlotStatus.RUNNING, batch_size=batch_size, attempts=before.attempts + 1
    )
    return msgspec.structs.replace(
        state,
        slots={**state.slots, slot: running},
        launches={**state.launches, launch: slot},
        attempts={**state.attempts, slot[0]: state.attempts.get(slot[0], 0) + 1},
    )


def _ended(state: RunState, launch: int, failure: Failure | None, figures: Figures | None) -> RunState:
    slot = state.launches.get(launch)
    if slot is None or state.slots[slot].status is not SlotStatus.RUNNING:
        return state
    scans = state.cells[slot[0]].batch_size == AUTO
    if failure is None:
        return _scanned(state, slot, launch, figures) if scans else _settle(state, slot, SlotStatus.MEASURED)
    before = state.slots[slot]
    failed = msgspec.structs.replace(before, failures=(*before.failures, failure.category))
    state = msgspec.structs.replace(state, slots={**state.slots, slot: failed})
    rule = POLICY[failure.category]
    if rule.reaction is Reaction.QUARANTINE:
        state = step(state, Quarantined(state.cells[slot[0]].devices[0], failure.message))
    if rule.reaction is Reaction.RETRY_SMALLER and not scans:
        return _shrink(state, slot, failure.phase)
    if rule.reaction is Reaction.RETRY and failed.failures.count(failure.category) <= rule.retries:
        return _again(state, slot)
    if scans and rule.reaction is not Reaction.QUARANTINE and scan.is_an_answer(failed.tried, failure.category):
        return _scanned(state, slot, launch, None)
    return _settle(state, slot, SlotStatus.FAILED)


def _scanned(state: RunState, slot: Slot, launch: int, figures: Figures | None) -> RunState:
    """A step of a scan is over, well or at a size that does not work: go on with the next, or be done."""
    before = state.slots[slot]
    tried = (*before.tried, Tried(launch=launch, batch_size=before.batch_size, figures=figures))
    state = msgspec.structs.replace(state, slots={**state.slots, slot: msgspec.structs.replace(before, tried=tried)})
    if _next_size(state, slot) is not None:
        return _again(state, slot, first=True)
    fits = scan.largest(tried) is not None
    return _settle(state, slot, SlotStatus.MEASURED if fits else SlotStatus.DOES_NOT_FIT)


def _next_size(state: RunState, slot: Slot) -> int | None:
    return scan.next_batch(state.slots[slot].tried, state.rooms[state.cells[slot[0]].devices[0]])


def _withdrawn(state: RunState, launch: int, failure: Failure) -> RunState:
    slot = state.launches[launch]
    before = state.slots[slot]
    tried = tuple(one for one in before.tried if one.launch != launch)
    without = msgspec.structs.replace(before, failures=(*before.failures, failure.category), tried=tried)
    state = msgspec.structs.replace(state, slots={**state.slots, slot: without})
    if without.tried and _next_size(state, slot) is None:
        return state  # the scan knows enough without it
    return _again(state, slot)


def _dropped(state: RunState, slot: Slot) -> RunState:
    if state.slots[slot].status is not SlotStatus.WAITING:
        return state
    device = state.cells[slot[0]].devices[0]
    queue = tuple(other for other in state.devices[device].queue if other != slot)
    return _settle(_with_device(state, device, queue=queue), slot, SlotStatus.DROPPED)


def _shrink(state: RunState, slot: Slot, phase: Phase) -> RunState:
    """Learn the size that does not fit, and try a smaller one; before the first forward no size would fit."""
    if phase not in (Phase.WARM_UP, Phase.MEASURE, Phase.FINISH):
        return _settle(state, slot, SlotStatus.DOES_NOT_FIT)
    family = _family(state.cells[slot[0]])
    known = state.too_large.get(family)
    tried = state.slots[slot].batch_size
    smallest = tried if known is None else min(known, tried)
    state = msgspec.structs.replace(state, too_large={**state.too_large, family: smallest})
    return _again(state, slot, first=True)


def _again(state: RunState, slot: Slot, *, first: bool = False) -> RunState:
    """Put a slot back into its device's queue.

    Behind the others, because what interrupts one launch must not keep them waiting; halving goes first, because they
    learn from it.
    """
    device = state.cells[slot[0]].devices[0]
    state = _settle(state, slot, SlotStatus.WAITING)
    queue = tuple(other for other in state.devices[device].queue if other != slot)
    return _with_device(state, device, queue=(slot, *queue) if first else (*queue, slot))


def _settle(state: RunState, slot: Slot, status: SlotStatus, *, refers_to: str | None = None) -> RunState:
    after = msgspec.structs.replace(state.slots[slot], status=status, refers_to=refers_to)
    return msgspec.structs.replace(state, slots={**state.slots, slot: after})


def _family(cell: Cell) -> Cell:
    """What a cell shares with the same cell at other batch sizes."""
    return msgspec.structs.replace(cell, batch_size=0)


def _with_device(state: RunState, uuid: str, **changes: object) -> RunState:
    device = msgspec.structs.replace(state.devices[uuid], **changes)
    return msgspec.structs.replace(state, devices={**state.devices, uuid: device})
