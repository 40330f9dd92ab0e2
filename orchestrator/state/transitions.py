"""The run: which launch is next on which device, and what an outcome means for the rest. Pure.

    plan ──begin──▶ RunState ──next_launches──▶ launches to make          the loop journals Started, then makes them
                       ▲  └── Ended, Freed, Dropped, StopAsked, … ── step ─┐
                       └───────────────────────────────────────────────────┘

A slot is one launch of a cell, planned or added (added_launches.py): (id of the cell, round). It is settled when it
has a
result, when it is referred to another cell that measures the same, when it does not fit, when its failure is final,
when its model is skipped (fault_placement.py), or when it is dropped for want of time. One that scans for the batch
size takes many launches; one on several devices waits for all of them (gangs.py).
state/replay.py feeds the records of a journal through the same functions, so there is one way to know where a run
stands.
"""

from collections.abc import Collection, Mapping

import msgspec

from orchestrator.config.run_configuration import Plan, Slot
from orchestrator.plan import batch_scan
from orchestrator.plan.batch_scan import Figures, Tried
from orchestrator.state import added_launches, fault_placement, gangs, turns
from orchestrator.state.failure_policy import BEFORE_FIRST_FORWARD, POLICY, Reaction
from orchestrator.state.persistent_map import Layered
from orchestrator.state.slots import (
    Added,
    DeviceState,
    Dropped,
    Ended,
    Event,
    Family,
    Freed,
    NextLaunch,
    Postponed,
    Quarantined,
    RunState,
    SlotState,
    SlotStatus,
    Started,
    StopAsked,
    Withdrawn,
    is_skipped,
    settled,
    with_device,
    with_slot,
)
from protocol.cell import AUTO, Cell
from protocol.failure import Category, Failure, Phase


def begin(
    plan: Plan, kinds: Mapping[str, str] | None = None, gpus: Collection[str] = (), *, skips: bool = True
) -> RunState:
    """The state before the first launch. kinds: device → its product name, None where all are taken to be alike.

    gpus: those that two models in a row may accuse (fault_placement.py). skips: whether what cannot work is launched
    no more.
    Not so in a burn-in, which is there to try the same again: a failure, or want of memory, costs one cell of a round.
    """
    cells = {cell.id: cell for cell in plan.cells}
    uuids = dict.fromkeys([*plan.order, *(uuid for cell in plan.cells for uuid in cell.devices)])
    slots = {slot: SlotState(batch_size=cells[slot[0]].batch_size) for queue in plan.order.values() for slot in queue}
    return RunState(
        cells=cells,
        slots=Layered(slots),
        tally={**dict.fromkeys(SlotStatus, 0), SlotStatus.WAITING: len(slots)},
        devices={uuid: DeviceState(queue=plan.order.get(uuid, ())) for uuid in uuids},
        kinds=dict.fromkeys(uuids, "") | dict(kinds or {}),
        gpus=frozenset(gpus),
        rooms=plan.rooms,
        skips=skips,
        modes=tuple(dict.fromkeys(cell.mode for cell in plan.cells)),
    )


def worth_repeating(state: RunState, launch: int, category: Category) -> bool:
    """Whether a result that is in doubt for this reason is to be measured again, or has been often enough.

    A step of a scan for the batch size is not: it has told what it was made for, whether the size fits. Nor is a result
    of a model that is skipped: there would be none in its place.
    """
    of = state.launches[launch]
    slot, scans = state.slots[of], state.cells[of[0]].batch_size == AUTO
    enough = slot.failures.count(category) >= POLICY[category].retries
    skipped = is_skipped(state, state.cells[of[0]])
    return slot.status is SlotStatus.MEASURED and not scans and not enough and not skipped


def next_launches(state: RunState) -> tuple[RunState, tuple[NextLaunch, ...]]:
    """What to launch now, at most one for each idle device, and the state after settling slots that need no launch.

    The loop must feed back Started for each of them before it asks again.
    """
    if state.stopping:
        return state, ()
    found: list[NextLaunch] = []
    taken: set[str] = set()
    before = state
    # Where not all may work at once, devices take turns: none is kept for the end, when a time limit may be near.
    limited = state.most < len(state.devices) or turns.are_taken(state)
    in_turn = sorted(state.devices.items(), key=lambda item: -len(item[1].queue)) if limited else state.devices.items()
    for uuid, device in in_turn:
        idle = device.running is None and not device.quarantined and uuid not in taken
        if not idle or state.busy + len(found) >= state.most:
            continue
        state, launch = _next_on(state, uuid, len(state.launches) + len(found), found)
        if launch is not None:
            found.append(launch)
            taken.update(launch.cell.devices)
    if not found and state is not before and turns.are_taken(state):
        return next_launches(state)  # who waited for a launch that need not be made waits no longer
    return state, tuple(found)


def step(state: RunState, event: Event) -> RunState:
    """The state after `event`.

    An event that makes no sense (the end of a launch that is not running) changes nothing: it is kept in the journal.
    """
    match event:
        case Started(launch, slot, _, batch_size):
            return _started(state, launch, slot, batch_size)
        case Ended(launch, failure, figures):
            return _ended(state, launch, failure, figures)
        case Freed(device):
            return gangs.left(state, device)
        case Quarantined(device, reason):
            return with_device(state, device, quarantined=reason)
        case Dropped(slot):
            return _dropped(state, slot)
        case Postponed(slot):
            return _last(state, slot) if state.slots[slot].status is SlotStatus.WAITING else state
        case Withdrawn(launch, failure):
            return _withdrawn(state, launch, failure)
        case StopAsked():
            return msgspec.structs.replace(state, stopping=True)
        case Added(slots):
            return added_launches.added(state, slots)


def _next_on(
    state: RunState, uuid: str, number: int, found: Collection[NextLaunch]
) -> tuple[RunState, NextLaunch | None]:
    """The first slot of a device's queue that needs a launch; those before it that need none are settled.

    found: launches that are about to be made on other devices. None where the first slot waits for other devices.
    """
    taken = {other for launch in found for other in launch.cell.devices}
    while (slot := gangs.first(state, uuid)) is not None:
        if (later := _without_launch(state, slot)) is not None:
            state = later
        elif not gangs.assembled(state, slot, taken) or not turns.may_begin(state, slot, [one.slot for one in found]):
            return state, None
        else:
            return state, _launch(state, slot, number)
    return state, None


def settle(state: RunState) -> RunState:
    """The state in which everything is settled that needs no launch, wherever it waits.

    That includes what was dropped: it needs no time either. Looks at every slot: for once in a while.
    """
    if not state.too_large and not state.skipped:
        return state
    for slot, known in state.slots.items():
        if known.status in (SlotStatus.WAITING, SlotStatus.DROPPED):
            state = _without_launch(state, slot) or state
    return state


def _without_launch(state: RunState, slot: Slot) -> RunState | None:
    """The state after a slot was settled without a launch; None where it needs one."""
    cell = state.cells[slot[0]]
    batch_size = AUTO if cell.batch_size == AUTO else fitting(state, slot)
    if batch_size < cell.batch_size and (other := _stand_in(state, cell, batch_size)) is not None:
        state = settled(state, slot, SlotStatus.REFERRED, refers_to=other)
    elif batch_size == 0 and cell.batch_size != AUTO:
        state = settled(state, slot, SlotStatus.DOES_NOT_FIT)
    elif is_skipped(state, cell):
        state = settled(state, slot, SlotStatus.SKIPPED)
    else:
        return None
    return gangs.without(state, slot)


def _launch(state: RunState, slot: Slot, number: int) -> NextLaunch:
    """The next launch of a slot; of a scan its next step: one that waits is not at its end."""
    scans = state.cells[slot[0]].batch_size == AUTO
    size = _next_size(state, slot) if scans else fitting(state, slot)
    assert size is not None
    cell = msgspec.structs.replace(state.cells[slot[0]], batch_size=size)
    attempt = state.attempts.get(slot[0], 0) + 1
    return NextLaunch(slot=slot, cell=cell, launch=number, attempt=attempt, scans=scans)


def fitting(state: RunState, slot: Slot) -> int:
    """The batch size to run: the planned one, halved until it is below what is known not to fit; 0 when none is."""
    limit = state.too_large.get(_family(state, slot))
    batch_size = state.cells[slot[0]].batch_size
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


def _started(state: RunState, launch: int, slot: Slot, batch_size: int) -> RunState:
    state = gangs.without(state, slot)
    for uuid in state.cells[slot[0]].devices:
        state = with_device(state, uuid, running=launch, clean=False)
    attempts = state.slots[slot].attempts + 1
    state = with_slot(state, slot, status=SlotStatus.RUNNING, batch_size=batch_size, launch=launch, attempts=attempts)
    return msgspec.structs.replace(
        state,
        launches=state.launches.but(launch, slot),
        attempts=state.attempts.but(slot[0], state.attempts.get(slot[0], 0) + 1),
    )


def _ended(state: RunState, launch: int, failure: Failure | None, figures: Figures | None) -> RunState:
    slot = state.launches.get(launch)
    if slot is None or state.slots[slot].status is not SlotStatus.RUNNING:
        return state
    state = gangs.let_go(state, slot)
    if failure is not None:
        state = _failed(state, slot, launch, failure)
        return fault_placement.conclude(state)
    for uuid in state.cells[slot[0]].devices:
        if state.devices[uuid].doubts:
            state = with_device(state, uuid, doubts=())
    if state.cells[slot[0]].batch_size == AUTO:
        state = _scanned(state, slot, launch, figures)
    else:
        state = settled(state, slot, SlotStatus.MEASURED)
    return fault_placement.conclude(state)


def _failed(state: RunState, slot: Slot, launch: int, failure: Failure) -> RunState:
    """What a failed launch means: for the slot, and, where the failure is final, for its device or its model."""
    rule = POLICY[failure.category]
    failures = (*state.slots[slot].failures, failure.category)
    state = with_slot(state, slot, failures=failures, failed_in=failure.phase, stopped=bool(failure.stopped))
    failed = state.slots[slot]
    scans = state.cells[slot[0]].batch_size == AUTO
    if rule.reaction is Reaction.QUARANTINE:
        culprit = failure.device or state.cells[slot[0]].devices[0]
        state = step(state, Quarantined(culprit, failure.message))
        return settled(state, slot, SlotStatus.FAILED)
    if rule.reaction is Reaction.RETRY_SMALLER and not scans:
        return _shrink(state, slot, failure.phase)
    if rule.reaction is Reaction.RETRY_FEWER:
        state = _fewer(state)
    if failed.failures.count(failure.category) <= rule.retries:
        return _again(state, slot, first=rule.reaction is Reaction.ELSEWHERE)
    if scans and batch_scan.is_an_answer(failed.tried, failure.category):
        return _scanned(state, slot, launch, None, failure.category)
    state = settled(state, slot, SlotStatus.FAILED)
    early = rule.reaction in {Reaction.SKIP_EARLY, Reaction.SKIP_BROKEN} and failure.phase in BEFORE_FIRST_FORWARD
    if early or rule.reaction is Reaction.SKIP_MODEL:
        return fault_placement.skip_model(state, slot)
    alone = len(state.cells[slot[0]].devices) == 1  # a gang is on all devices there are: there is no elsewhere
    return fault_placement.ask(state, slot) if rule.reaction is Reaction.ELSEWHERE and alone else state


def _fewer(state: RunState) -> RunState:
    """The host's memory did not hold what ran at once: from now on half of that."""
    return msgspec.structs.replace(state, at_once=max(1, min(state.tally[SlotStatus.RUNNING], state.most) // 2))


def _scanned(
    state: RunState, slot: Slot, launch: int, figures: Figures | None, category: Category | None = None
) -> RunState:
    """A step of a scan is over, well or at a size that does not work: go on with the next, or be done."""
    before = state.slots[slot]
    latest = Tried(launch=launch, batch_size=before.batch_size, figures=figures, category=category)
    tried = (*before.tried, latest)
    state = with_slot(state, slot, tried=tried)
    if _next_size(state, slot) is not None:
        return _again(state, slot, first=True)
    fits = batch_scan.largest(tried) is not None
    return settled(state, slot, SlotStatus.MEASURED if fits else SlotStatus.DOES_NOT_FIT)


def _next_size(state: RunState, slot: Slot) -> int | None:
    return batch_scan.next_batch(state.slots[slot].tried, state.rooms[state.cells[slot[0]].devices[0]])


def _withdrawn(state: RunState, launch: int, failure: Failure) -> RunState:
    slot = state.launches[launch]
    before = state.slots[slot]
    tried = tuple(one for one in before.tried if one.launch != launch)
    state = with_slot(state, slot, failures=(*before.failures, failure.category), tried=tried)
    if tried and _next_size(state, slot) is None:
        return state  # the scan knows enough without it
    if state.slots[slot].failures.count(failure.category) <= POLICY[failure.category].retries:
        return _again(state, slot)
    state = gangs.without(state, slot)  # a scan waits there already
    return settled(state, slot, SlotStatus.FAILED)


def _dropped(state: RunState, slot: Slot) -> RunState:
    if state.slots[slot].status is not SlotStatus.WAITING:
        return state
    return settled(gangs.without(state, slot), slot, SlotStatus.DROPPED)


def _shrink(state: RunState, slot: Slot, phase: Phase) -> RunState:
    """Learn the size that does not fit, and try a smaller one; before the first forward no size would fit."""
    family = _family(state, slot)
    known = state.too_large.get(family)
    tried = 1 if phase in BEFORE_FIRST_FORWARD else state.slots[slot].batch_size
    smallest = tried if known is None else min(known, tried)
    state = msgspec.structs.replace(state, too_large={**state.too_large, family: smallest})
    if phase in BEFORE_FIRST_FORWARD:
        return settled(state, slot, SlotStatus.DOES_NOT_FIT)
    return _again(state, slot, first=True)


def _again(state: RunState, slot: Slot, *, first: bool = False) -> RunState:
    """Put a slot back into its device's queue, or into those of all its devices.

    Behind the others of its turn, because what interrupts one launch must not keep them waiting, and before the next
    one: a run with a time limit does not come to its end, and a loaded launch wants the others beside it. Halving, and
    what may be the fault of the model or the device, goes first, because they learn from it.
    """
    state = gangs.without(settled(state, slot, SlotStatus.WAITING), slot)
    places = dict.fromkeys(state.cells[slot[0]].devices, 0) if first else turns.ends(state, slot)
    return gangs.into(state, slot, places)


def _last(state: RunState, slot: Slot) -> RunState:
    """Put a slot that waits behind all others, on each of its devices."""
    state = gangs.without(state, slot)
    return gangs.into(state, slot, {uuid: len(state.devices[uuid].queue) for uuid in state.cells[slot[0]].devices})


def _family(state: RunState, slot: Slot) -> Family:
    """What a launch shares with the same cell at other batch sizes: in a burn-in of its round alone."""
    cell = msgspec.structs.replace(state.cells[slot[0]], batch_size=0)
    return cell, None if state.skips else slot[1]
