"""The state of a run, and the events that can happen to it. transitions.py decides what an event changes.

    RunState ─┬─ slots     each planned launch (measurement): waiting, running, or how it was settled
              ├─ devices   each device: its queue, what it runs, its quarantine
              └─ …         batch sizes that do not fit, faulty models, launches and attempts made

A step costs the same for ten cells and for twenty thousand (persistent_map.py).
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Room, Slot
from orchestrator.plan.batch_scan import Figures, Tried
from orchestrator.state.persistent_map import Layered
from orchestrator.stats.stragglers import MOST_LAUNCHES
from protocol.cell import Cell, Mode
from protocol.failure import Category, Failure, Phase

Family = tuple[Cell, int | None]
"""Key of cells that differ only in batch size: (the cell with batch size 0, round). Round None: one key for all."""


class SlotStatus(enum.StrEnum):
    """Status of a planned launch. SKIPPED: its model or a part of that is faulty. DROPPED: there was no time for it.

    REFERRED: its batch size does not fit, and a planned cell with a smaller one stands in for it. DOES_NOT_FIT: no
    batch size fits. UNSUPPORTED: this machine cannot run it, for example without Triton.
    """

    WAITING = "waiting"
    RUNNING = "running"
    MEASURED = "measured"
    REFERRED = "referred"
    DOES_NOT_FIT = "does not fit"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    SKIPPED = "skipped"
    DROPPED = "dropped"


SETTLED: Final = frozenset(SlotStatus) - {SlotStatus.WAITING, SlotStatus.RUNNING}


class SlotState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one planned launch, or of a search for the batch size (scan), which takes many launches.

    batch_size: of the last attempt; the planned one if there is no attempt. launch: number of the last attempt.
    attempts: how many were started. failures: category of each failed or withdrawn attempt, the oldest first.
    failed_in: phase of the last failed attempt. stopped: whether the process of the last failed attempt missed its
    deadline and had been stopped by a signal (state T). refers_to: id of the planned cell with a smaller batch that
    replaces this one. tried: batch sizes that a scan has tried.
    """

    status: SlotStatus = SlotStatus.WAITING
    batch_size: int
    launch: int | None = None
    attempts: int = 0
    failures: tuple[Category, ...] = ()
    failed_in: Phase = Phase.START
    stopped: bool = False
    refers_to: str | None = None
    tried: tuple[Tried, ...] = ()


class DeviceState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one device. running: number of the launch on it, until Freed.

    queue: slots that wait for the device, the next one first. clean: its process is gone, but its launch still runs on
    other devices. quarantined: the reason, or "". strikes: slots that failed here and work on another device. doubts:
    slots that failed since the last result here and whose failure cannot be attributed, because no other device can run
    them.
    """

    queue: Sequence[Slot]
    running: int | None = None
    clean: bool = False
    quarantined: str = ""
    strikes: tuple[Slot, ...] = ()
    doubts: tuple[Slot, ...] = ()


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """Why a model is skipped on every device: failures of `category`, which happened on `devices`.

    only: the skipped part, such as "inference fp16 at batch size 8"; empty: the whole model.
    """

    model: str
    only: str = ""
    category: Category
    devices: tuple[str, ...]


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """State of the whole run. A slot is a planned launch: (cell id, round).

    tally: status → number of slots. kinds: device → product name. gpus: devices that are quarantined if two models in a
    row fail there. too_large: cells of one Family → smallest batch size that does not fit. launches: launch number →
    slot. attempts: cell → number of attempts in all rounds. rooms: device → limits of scans for the batch size.
    unattributed: failed slots whose cause is not known, with the same cell on other devices. skipped: name (see
    `scopes`) → reason. in_vain: device → number of waiting slots whose cell is skipped. skips: whether faulty models
    are skipped. at_once: maximum of concurrent launches, None for one per device. modes: in their order within a round.
    stopping: whether a stop was requested, so that no launch starts any more.
    """

    cells: Mapping[str, Cell]
    slots: Layered[Slot, SlotState]
    tally: Mapping[SlotStatus, int]
    devices: Mapping[str, DeviceState]
    kinds: Mapping[str, str]
    gpus: frozenset[str] = frozenset()
    too_large: Mapping[Family, int] = {}
    launches: Layered[int, Slot] = Layered({})
    attempts: Layered[str, int] = Layered({})
    rooms: Mapping[str, Room] = {}
    unattributed: tuple[Slot, ...] = ()
    skipped: Mapping[str, Skip] = {}
    in_vain: Mapping[str, int] = {}
    skips: bool = True
    at_once: int | None = None
    modes: tuple[Mode, ...] = (Mode.LOADED,)
    stopping: bool = False

    @property
    def settled(self) -> int:
        """Number of planned launches that are done or will not be made."""
        return sum(self.tally[status] for status in SETTLED)

    @property
    def most(self) -> int:
        """Maximum number of concurrent launches: 1 if all cells have mode solo, else `at_once` or one per device."""
        return 1 if self.modes == (Mode.SOLO,) else self.at_once or len(self.devices)

    @property
    def busy(self) -> int:
        """Number of launches whose devices are not free again yet."""
        return len({device.running for device in self.devices.values()} - {None})


class NextLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch to start. launch: its number in the run. attempt: its number, from 1, among attempts at the cell.

    slot: (id of the planned cell, round). cell: with the batch size to run. scans: whether it is part of a search for
    the batch size.
    """

    slot: Slot
    cell: Cell
    launch: int
    attempt: int
    scans: bool = False

    @property
    def planned(self) -> str:
        """The id of the planned cell, which may have another batch size."""
        return self.slot[0]

    @property
    def device(self) -> str:
        """The UUID of the device; of the first, if there are several."""
        return self.cell.devices[0]


class Started(msgspec.Struct, frozen=True):
    """Event: a launch was recorded in the journal as started. device: the first device of its cell."""

    launch: int
    slot: Slot
    device: str
    batch_size: int


class Ended(msgspec.Struct, frozen=True):
    """Event: a launch gave a result (failure is None) or failed. Its devices are not free yet.

    figures: memory and throughput of a result in a search for the batch size; else None.
    """

    launch: int
    failure: Failure | None
    figures: Figures | None = None


class Freed(msgspec.Struct, frozen=True):
    """Event: a device is free again, or is quarantined with a process that cannot be killed."""

    device: str


class Quarantined(msgspec.Struct, frozen=True):
    """Event: a device was quarantined."""

    device: str
    reason: str


class Dropped(msgspec.Struct, frozen=True):
    """Event: a waiting launch was dropped for lack of time."""

    slot: Slot


class Postponed(msgspec.Struct, frozen=True):
    """Event: a waiting launch (a slot) was moved to the end of the queues of its devices."""

    slot: Slot


class Withdrawn(msgspec.Struct, frozen=True):
    """Event: a recorded result no longer counts. failure: the reason, such as a lost file or a throttled GPU."""

    launch: int
    failure: Failure


class StopRequested(msgspec.Struct, frozen=True):
    """Event: the user requested a stop."""


class Added(msgspec.Struct, frozen=True):
    """Event: launches of planned cells were added to the ends of the queues, in this order."""

    slots: tuple[Slot, ...]


Event = Started | Ended | Freed | Quarantined | Dropped | Postponed | Withdrawn | StopRequested | Added


def scopes(cell: Cell) -> tuple[str, str, str]:
    """Return the three names under which a cell may be skipped, widest first. The last two name its input size, if any.

    ("resnet50", "resnet50 training fp16", "resnet50 training fp16 at batch size 8")
    """
    work = f"{cell.model} {cell.workload} {cell.precision}"
    batch = f"batch size {cell.batch_size or 'auto'}"
    if cell.input_size is None:
        return cell.model, work, f"{work} at {batch}"
    size = f"input size {cell.input_size}"
    return cell.model, f"{work} at {size}", f"{work} at {batch} and {size}"


def skipped_as(state: RunState, cell: Cell) -> str:
    """Return the widest name (see `scopes`) under which a cell is skipped; "" if it is not skipped."""
    return next((scope for scope in scopes(cell) if scope in state.skipped), "") if state.skipped else ""


def is_skipped(state: RunState, cell: Cell) -> bool:
    """Whether a planned cell is skipped, under any of its names (see `scopes`)."""
    return bool(skipped_as(state, cell))


def wait_in_vain(state: RunState) -> dict[str, int]:
    """Return each device's number of waiting slots whose cell is skipped. A gang counts for its first device. Slow."""
    in_vain = dict.fromkeys(state.devices, 0)
    for (cell_id, _), slot in state.slots.items():
        cell = state.cells[cell_id]
        if slot.status is SlotStatus.WAITING and is_skipped(state, cell):
            in_vain[cell.devices[0]] += 1
    return in_vain


def rounds(state: RunState, cell: str) -> int:
    """Return the number of the last round with a slot of the cell, plus 1; 0 without a slot. cell: its id."""
    number = 0
    while (cell, number) in state.slots:
        number += 1
    return max((later + 1 for later in range(number, MOST_LAUNCHES) if (cell, later) in state.slots), default=number)


def settled(state: RunState, slot: Slot, status: SlotStatus, *, refers_to: str | None = None) -> RunState:
    """Return the state in which a slot has this status; queues stay. refers_to: id of the cell to use, if REFERRED."""
    return with_slot(state, slot, status=status, refers_to=refers_to)


def with_slot(state: RunState, slot: Slot, **changes: object) -> RunState:
    """Return the state with some fields of a slot changed. changes: new values of fields of SlotState."""
    before = state.slots[slot]
    after = msgspec.structs.replace(before, **changes)
    tally, in_vain = state.tally, state.in_vain
    if after.status is not before.status:
        tally = {**tally, before.status: tally[before.status] - 1, after.status: tally[after.status] + 1}
        cell = state.cells[slot[0]]
        if SlotStatus.WAITING in (before.status, after.status) and is_skipped(state, cell):
            more = 1 if after.status is SlotStatus.WAITING else -1
            in_vain = {**in_vain, cell.devices[0]: in_vain[cell.devices[0]] + more}
    return msgspec.structs.replace(state, slots=state.slots.but(slot, after), tally=tally, in_vain=in_vain)


def with_device(state: RunState, uuid: str, **changes: object) -> RunState:
    """Return the state with some fields of a device changed. changes: new values of fields of DeviceState."""
    device = msgspec.structs.replace(state.devices[uuid], **changes)
    return msgspec.structs.replace(state, devices={**state.devices, uuid: device})
