"""The state machine of a run: the next launch of each device, and what an event changes. Pure.

    plan ──begin──▶ RunState ──next_launches──▶ launches to make          the loop journals Started, then makes them
                       ▲  └── Ended, Freed, Dropped, StopRequested, … ── step ─┐
                       └───────────────────────────────────────────────────┘

A slot is one planned launch (measurement) of a cell: (cell id, round). A search for the batch size (scan) takes many
launches. A gang (a launch on several devices) waits for all its devices.
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
    StopRequested,
    Withdrawn,
    is_skipped,
    rounds,
    settled,
    with_device,
    with_slot,
)
from protocol.cell import AUTO, Cell
from protocol.failure import Category, Failure, Phase


def begin(
    plan: Plan, kinds: Mapping[str, str] | None = None, gpus: Collection[str] = (), *, skips: bool = True
) -> RunState:
    """Return the state before the first launch. kinds: device → product name; None if all are the same product.

    Cells that fail finally are tried on another device of the same product. gpus: devices that are quarantined if two
    models in a row fail there. skips: whether faulty models are skipped.
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
    """Whether to withdraw and repeat a measured launch that is doubtful for the reason `category`.

    launch: its number. False if all retries for this reason are used up, if its cell is skipped, or if it belongs to a
    search for the batch size.
    """
    of = state.launches[launch]
    slot, scans = state.slots[of], state.cells[of[0]].batch_size == AUTO
    enough = slot.failures.count(category) >= POLICY[category].retries
    skipped = is_skipped(state, state.cells[of[0]])
    return slot.status is SlotStatus.MEASURED and not scans and not enough and not skipped


def next_launches(state: RunState) -> tuple[RunState, tuple[NextLaunch, ...]]:
    """Return the state and the launches to start, at most one per device. Pass Started to `step` for each of them.

    In the state, some slots that need no launch are settled: they have a final status without one, such as SKIPPED. No
    launches if the run is stopping.
    """
    if state.stopping:
        return state, ()
    launches: list[NextLaunch] = []
    taken: set[str] = set()
    before = state
    # Where not all may work at once, the longest queue goes first: a time limit must not hit one device alone.
    limited = state.most < len(state.devices) or turns.are_taken(state)
    in_turn = sorted(state.devices.items(), key=lambda item: -len(item[1].queue)) if limited else state.devices.items()
    for uuid, device in in_turn:
        idle = device.running is None and not device.quarantined and uuid not in taken
        if not idle or state.busy + len(launches) >= state.most:
            continue
        state, launch = _next_on(state, uuid, len(state.launches) + len(launches), launches)
        if launch is not None:
            launches.append(launch)
            taken.update(launch.cell.devices)
    if not launches and state is not before and turns.are_taken(state):
        return next_launches(state)  # a settled slot may have been what another device waited for
    return state, tuple(launches)


def step(state: RunState, event: Event) -> RunState:
    """Return the state after `event`, for slots and devices of `state`; unknown ones raise KeyError.

    The end of a launch that is not running changes nothing, nor does the drop of a slot that is not waiting.
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
            if state.slots[slot].status is not SlotStatus.WAITING:
                return state
            state, devices = gangs.without(state, slot), state.cells[slot[0]].devices
            return gangs.into(state, slot, {uuid: len(state.devices[uuid].queue) for uuid in devices})
        case Withdrawn(launch, failure):
            return _withdrawn(state, launch, failure)
        case StopRequested():
            return msgspec.structs.replace(state, stopping=True)
        case Added(slots):
            return added_launches.added(state, slots)


def _next_on(
    state: RunState, uuid: str, number: int, launches: Collection[NextLaunch]
) -> tuple[RunState, NextLaunch | None]:
    taken = {other for launch in launches for other in launch.cell.devices}
    while (slot := gangs.first(state, uuid)) is not None:
        if (later := _without_launch(state, slot)) is not None:
            state = later
        elif not gangs.assembled(state, slot, taken) or not turns.may_begin(
            state, slot, [launch.slot for launch in launches]
        ):
            return state, None
        else:
            scans = state.cells[slot[0]].batch_size == AUTO
            size = _next_size(state, slot) if scans else fitting(state, slot)
            assert size is not None, "a scan that waits is not over"
            cell = msgspec.structs.replace(state.cells[slot[0]], batch_size=size)
            attempt = state.attempts.get(slot[0], 0) + 1
            return state, NextLaunch(slot=slot, cell=cell, launch=number, attempt=attempt, scans=scans)
    return state, None


def settle(state: RunState) -> RunState:
    """Return the state in which every slot that needs no launch any more is settled (has its final status).

    A waiting or dropped slot needs none if its cell is skipped (SKIPPED), or if its batch size does not fit: REFERRED
    if a smaller planned cell stands in for it, DOES_NOT_FIT if not even size 1 fits. Slow: looks at every slot.
    """
    if not state.too_large and not state.skipped:
        return state
    for slot, current in state.slots.items():
        if current.status in (SlotStatus.WAITING, SlotStatus.DROPPED):
            state = _without_launch(state, slot) or state
    return state


def _without_launch(state: RunState, slot: Slot) -> RunState | None:
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


def fitting(state: RunState, slot: Slot) -> int:
    """Return the batch size to run: the planned one, halved while known to be too large; 0 if even 1 is."""
    limit = state.too_large.get(_family(state, slot))
    batch_size = state.cells[slot[0]].batch_size
    while limit is not None and batch_size >= limit:
        batch_size //= 2
    return batch_size


def _stand_in(state: RunState, cell: Cell, fitting: int) -> str | None:
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
    if slot is None or (state.slots[slot].status, state.slots[slot].launch) != (SlotStatus.RUNNING, launch):
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
    rule = POLICY[failure.category]
    failures = (*state.slots[slot].failures, failure.category)
    state = with_slot(state, slot, failures=failures, failed_in=failure.phase, stopped=bool(failure.stopped))
    failed = state.slots[slot]
    scans = state.cells[slot[0]].batch_size == AUTO
    if rule.reaction is Reaction.QUARANTINE:
        culprit = failure.device or state.cells[slot[0]].devices[0]
        state = step(state, Quarantined(culprit, failure.message))
        return settled(state, slot, SlotStatus.FAILED)
    if rule.reaction is Reaction.NOT_SUPPORTED:
        return _unsupported(state, slot)
    if rule.reaction is Reaction.RETRY_SMALLER and not scans:
        return _shrink(state, slot, failure.phase)
    if rule.reaction is Reaction.RETRY_FEWER:
        at_once = max(1, min(state.tally[SlotStatus.RUNNING], state.most) // 2)
        state = msgspec.structs.replace(state, at_once=at_once)
    if failed.failures.count(failure.category) <= rule.retries:
        return _again(state, slot, first=rule.reaction is Reaction.ELSEWHERE)
    if scans and batch_scan.is_an_answer(failed.tried, failure.category):
        return _scanned(state, slot, launch, None, failure.category)
    state = settled(state, slot, SlotStatus.FAILED)
    early = rule.reaction in {Reaction.SKIP_EARLY, Reaction.SKIP_BROKEN} and failure.phase in BEFORE_FIRST_FORWARD
    if early or rule.reaction is Reaction.SKIP_MODEL:
        return fault_placement.skip_model(state, slot)
    alone = len(state.cells[slot[0]].devices) == 1  # a gang cannot run elsewhere
    return fault_placement.try_elsewhere(state, slot) if rule.reaction is Reaction.ELSEWHERE and alone else state


def _scanned(
    state: RunState, slot: Slot, launch: int, figures: Figures | None, category: Category | None = None
) -> RunState:
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
    tried = tuple(trial for trial in before.tried if trial.launch != launch)
    state = with_slot(state, slot, failures=(*before.failures, failure.category), tried=tried)
    if tried and _next_size(state, slot) is None:
        return state  # the scan knows enough without it
    if state.slots[slot].failures.count(failure.category) <= POLICY[failure.category].retries:
        return _again(state, slot)
    state = gangs.without(state, slot)  # a scan may wait there
    return settled(state, slot, SlotStatus.FAILED)


def _dropped(state: RunState, slot: Slot) -> RunState:
    if state.slots[slot].status is not SlotStatus.WAITING:
        return state
    return settled(gangs.without(state, slot), slot, SlotStatus.DROPPED)


def _shrink(state: RunState, slot: Slot, phase: Phase) -> RunState:
    """Record that the batch size of a slot does not fit, and put the slot back with half of it.

    phase: where memory ran out. If that was before the first forward pass, no batch size fits. Then the slot is not put
    back, but settled as DOES_NOT_FIT.
    """
    family = _family(state, slot)
    limit = state.too_large.get(family)
    tried = 1 if phase in BEFORE_FIRST_FORWARD else state.slots[slot].batch_size
    smallest = tried if limit is None else min(limit, tried)
    state = msgspec.structs.replace(state, too_large={**state.too_large, family: smallest})
    if phase in BEFORE_FIRST_FORWARD:
        return settled(state, slot, SlotStatus.DOES_NOT_FIT)
    return _again(state, slot, first=True)


def _unsupported(state: RunState, slot: Slot) -> RunState:
    state = settled(state, slot, SlotStatus.UNSUPPORTED)
    for other in ((slot[0], round_) for round_ in range(rounds(state, slot[0]))):
        if other in state.slots and state.slots[other].status is SlotStatus.WAITING:
            state = gangs.without(settled(state, other, SlotStatus.UNSUPPORTED), other)
    return state


def _again(state: RunState, slot: Slot, *, first: bool = False) -> RunState:
    """Put a slot back into the queue of each of its devices.

    first: at the start of the queue. Otherwise behind the other launches of its turn (same round, solo or loaded).
    """
    state = gangs.without(settled(state, slot, SlotStatus.WAITING), slot)
    places = dict.fromkeys(state.cells[slot[0]].devices, 0) if first else turns.ends(state, slot)
    return gangs.into(state, slot, places)


def _family(state: RunState, slot: Slot) -> Family:
    """Return the key of a slot in `RunState.too_large`: (its cell with batch size 0, round).

    The round is that of the slot in a burn-in, and None in other runs.
    """
    cell = msgspec.structs.replace(state.cells[slot[0]], batch_size=0)
    return cell, None if state.skips else slot[1]
