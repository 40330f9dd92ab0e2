"""The run: which launch is next on which device, and what an outcome means for the rest. Pure.

    plan ──begin──▶ RunState ──next_launches──▶ launches to make          the loop journals Started, then makes them
                       ▲  └──Ended, Freed, Quarantined, StopAsked── step ──┐
                       └───────────────────────────────────────────────────┘

A slot is one planned launch of a cell: (id of the cell, round). It is settled when it has a result, when it is referred
to another cell that measures the same, when it does not fit, or when its failure is final. `resume` feeds the journal's
starts and ends through the same function, so there is one way to know where a run stands.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from orchestrator.configuration import Plan
from orchestrator.policy import POLICY, Reaction
from orchestrator.records import End, Record, Start
from protocol.cell import Cell, Mode
from protocol.failure import Category, Failure, Phase

Slot = tuple[str, int]


class SlotStatus(enum.StrEnum):
    """Where a planned launch stands."""

    WAITING = "waiting"
    RUNNING = "running"
    MEASURED = "measured"
    REFERRED = "referred"
    DOES_NOT_FIT = "does not fit"
    FAILED = "failed"


SETTLED: Final = frozenset({SlotStatus.MEASURED, SlotStatus.REFERRED, SlotStatus.DOES_NOT_FIT, SlotStatus.FAILED})


class SlotState(msgspec.Struct, frozen=True, kw_only=True):
    """One planned launch. batch_size: what the last attempt ran; refers_to: the cell that has its result."""

    status: SlotStatus = SlotStatus.WAITING
    batch_size: int
    attempts: int = 0
    failures: tuple[Category, ...] = ()
    refers_to: str | None = None


class DeviceState(msgspec.Struct, frozen=True, kw_only=True):
    """One device. running: the launch that has it, until its process is gone and its memory is free again."""

    queue: tuple[Slot, ...]
    running: int | None = None
    quarantined: str = ""


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run, now.

    too_large: cell without its batch size → the smallest batch known not to fit. launches: launch → its slot.
    attempts: attempts so far at each cell, over all rounds; they number the folders.
    """

    cells: Mapping[str, Cell]
    slots: Mapping[Slot, SlotState]
    devices: Mapping[str, DeviceState]
    too_large: Mapping[Cell, int] = {}
    launches: Mapping[int, Slot] = {}
    attempts: Mapping[str, int] = {}
    solo: bool = False
    stopping: bool = False

    @property
    def settled(self) -> int:
        """How many planned launches need nothing more."""
        return sum(slot.status in SETTLED for slot in self.slots.values())

    @property
    def busy(self) -> bool:
        """Whether any device has a launch."""
        return any(device.running is not None for device in self.devices.values())


class NextLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch to make: `cell` has the batch size to run now; `planned` is the id of the cell it is for."""

    slot: Slot
    cell: Cell
    launch: int
    attempt: int

    @property
    def planned(self) -> str:
        """Id of the cell of the plan."""
        return self.slot[0]

    @property
    def device(self) -> str:
        """UUID of the device it runs on."""
        return self.cell.devices[0]


class Started(msgspec.Struct, frozen=True):
    """A launch was journaled as begun."""

    launch: int
    slot: Slot
    device: str
    batch_size: int


class Ended(msgspec.Struct, frozen=True):
    """A launch gave a result (failure is None) or failed. Its device is still taken."""

    launch: int
    failure: Failure | None


class Freed(msgspec.Struct, frozen=True):
    """The process of a launch is gone and its device clean."""

    device: str


class Quarantined(msgspec.Struct, frozen=True):
    """A device is not to be used any more in this run."""

    device: str
    reason: str


class Lost(msgspec.Struct, frozen=True):
    """The result of a launch, recorded earlier, is not there any more."""

    launch: int


class StopAsked(msgspec.Struct, frozen=True):
    """A person wants the run to end: begin nothing new."""


Event = Started | Ended | Freed | Quarantined | Lost | StopAsked


def begin(plan: Plan) -> RunState:
    """The state before the first launch."""
    cells = {cell.id: cell for cell in plan.cells}
    return RunState(
        cells=cells,
        slots={
            slot: SlotState(batch_size=cells[slot[0]].batch_size) for queue in plan.order.values() for slot in queue
        },
        devices={device: DeviceState(queue=queue) for device, queue in plan.order.items()},
        solo=any(cell.mode is Mode.SOLO for cell in plan.cells),
    )


def restore(plan: Plan, records: Iterable[Record]) -> RunState:
    """The state that the journal's records lead to.

    A Start without an End was interrupted, and counts as an attempt. A second End takes a result back that was lost.
    Devices that were taken out get another chance: whoever resumes a run may have mended them.
    """
    state = begin(plan)
    open_launches: dict[int, Start] = {}
    for record in records:
        match record:
            case Start():
                open_launches[record.launch] = record
                slot = (record.cell, record.round)
                state = step(state, Started(record.launch, slot, record.device, record.batch_size))
            case End() if record.launch in open_launches:
                start = open_launches.pop(record.launch)
                state = step(step(state, Ended(record.launch, record.failure)), Freed(start.device))
            case End():
                state = step(state, Lost(record.launch))
            case _:
                pass
    for launch, start in open_launches.items():
        state = step(step(state, Ended(launch, interrupted())), Freed(start.device))
    devices = {uuid: msgspec.structs.replace(one, quarantined="") for uuid, one in state.devices.items()}
    return msgspec.structs.replace(state, devices=devices)


def interrupted() -> Failure:
    """The failure of an attempt whose orchestrator died."""
    return Failure(
        category=Category.INTERRUPTED,
        message="the orchestrator ended while this attempt was running",
        phase=Phase.START,
    )


def next_launches(state: RunState) -> tuple[RunState, tuple[NextLaunch, ...]]:
    """What to launch now, at most one for each idle device, and the state after settling slots that need no launch.

    The loop must feed back Started for each of them before it asks again.
    """
    if state.stopping:
        return state, ()
    found: list[NextLaunch] = []
    for uuid, device in state.devices.items():
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
        case Ended(launch, failure):
            return _ended(state, launch, failure)
        case Freed(device):
            return _with_device(state, device, running=None)
        case Quarantined(device, reason):
            return _with_device(state, device, quarantined=reason)
        case Lost(launch):
            return _again(state, state.launches[launch])
        case StopAsked():
            return msgspec.structs.replace(state, stopping=True)


def _next_on(state: RunState, uuid: str, number: int) -> tuple[RunState, NextLaunch | None]:
    """The first slot of a device's queue that needs a launch; those before it that need none are settled."""
    while queue := state.devices[uuid].queue:
        slot = queue[0]
        cell = state.cells[slot[0]]
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


def _ended(state: RunState, launch: int, failure: Failure | None) -> RunState:
    slot = state.launches.get(launch)
    if slot is None or state.slots[slot].status is not SlotStatus.RUNNING:
        return state
    if failure is None:
        return _settle(state, slot, SlotStatus.MEASURED)
    before = state.slots[slot]
    failed = msgspec.structs.replace(before, failures=(*before.failures, failure.category))
    state = msgspec.structs.replace(state, slots={**state.slots, slot: failed})
    rule = POLICY[failure.category]
    if rule.reaction is Reaction.QUARANTINE:
        state = step(state, Quarantined(state.cells[slot[0]].devices[0], failure.message))
    if rule.reaction is Reaction.RETRY_SMALLER:
        return _shrink(state, slot, failure.phase)
    if rule.reaction is Reaction.RETRY and failed.failures.count(failure.category) <= rule.retries:
        return _again(state, slot)
    return _settle(state, slot, SlotStatus.FAILED)


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
    queue = state.devices[device].queue
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
