"""What a run's state is made of, and what can happen to it. Values alone: what decides is in state.py.

    RunState ─┬─ slots     each planned launch: waiting, running, or how it was settled
              ├─ devices   each device: its queue, what it runs, whether it is taken out
              └─ what has been learned: sizes that do not fit, models that do not work, launches and attempts made

Everything here is frozen: a step of the run makes a new state. `with_slot`, `settled` and `with_device` make the
smallest ones. A step costs the same whether the run has ten cells or twenty thousand (persistent_map.py).
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Room, Slot
from orchestrator.plan.batch_scan import Figures, Tried
from orchestrator.state.persistent_map import Layered
from orchestrator.stats.siblings import MOST_LAUNCHES
from protocol.cell import Cell, Mode
from protocol.failure import Category, Failure, Phase

Family = tuple[Cell, int | None]
"""What learns a batch size together: a cell without its own, and the one round for which that holds, or all (None)."""


class SlotStatus(enum.StrEnum):
    """Where a planned launch stands."""

    WAITING = "waiting"
    RUNNING = "running"
    MEASURED = "measured"
    REFERRED = "referred"
    DOES_NOT_FIT = "does not fit"
    FAILED = "failed"
    SKIPPED = "skipped"
    DROPPED = "dropped"


SETTLED: Final = frozenset(SlotStatus) - {SlotStatus.WAITING, SlotStatus.RUNNING}


class SlotState(msgspec.Struct, frozen=True, kw_only=True):
    """One planned launch, or one scan for the batch size, which takes many.

    launch, batch_size: of the last attempt, by which a measured slot counts. failed_in: how far its last failure had
    come; stopped: a signal from outside had stopped its process then. refers_to: the cell that has its result. tried:
    what a scan knows so far.
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
    """One device. queue: what is to run there; a launch on several devices waits in the queue of each. running: the
    launch that has it, until it has ended, its process here is gone and its memory is free again. clean: of these, only
    the end is waited for (gangs.py).

    quarantined: why it is not used any more. strikes: slots that failed here and work on another device. doubts: slots
    that failed since anything was measured here, of which no other device can tell whose fault it was.
    """

    queue: tuple[Slot, ...]
    running: int | None = None
    clean: bool = False
    quarantined: str = ""
    strikes: tuple[Slot, ...] = ()
    doubts: tuple[Slot, ...] = ()


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """Why a model is not run any more: what failed, and the devices on which it did.

    only: in which work, or at which size, it is skipped, where others may well work; empty for all of them.
    """

    model: str
    only: str = ""
    category: Category
    devices: tuple[str, ...]


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run, now.

    kinds: device → what it is; those that are the same can stand for each other. gpus: devices with a hardware of
    their own, which two models in a row may accuse. tally: how many slots have a status.
    too_large: family → the smallest batch known not to fit. launches: launch → its slot.
    attempts: attempts so far at each cell, over all rounds; they number the folders. rooms: device → what bounds scans.
    asked: slots that failed and whose cell another device is to try, which tells whose fault it was. skipped: what is
    not run any more, by the name that `scopes` has for it. in_vain: device → how many of its slots wait although
    they are skipped: no launch is made for them. skips: whether anything may be skipped at all. at_once: the most
    launches at the same time, None for one on every device. modes: in the order in which each round has them.
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
    asked: tuple[Slot, ...] = ()
    skipped: Mapping[str, Skip] = {}
    in_vain: Mapping[str, int] = {}
    skips: bool = True
    at_once: int | None = None
    modes: tuple[Mode, ...] = (Mode.LOADED,)
    stopping: bool = False

    @property
    def settled(self) -> int:
        """How many planned launches need nothing more."""
        return sum(self.tally[status] for status in SETTLED)

    @property
    def most(self) -> int:
        """How many launches there may be at the same time."""
        return 1 if self.modes == (Mode.SOLO,) else self.at_once or len(self.devices)

    @property
    def busy(self) -> int:
        """How many launches have a device, or several."""
        return len({device.running for device in self.devices.values()} - {None})


class NextLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch to make: `cell` has the batch size to run now; `planned` is the id of the cell it is for.

    scans: it is a step of a scan for the batch size.
    """

    slot: Slot
    cell: Cell
    launch: int
    attempt: int
    scans: bool = False

    @property
    def planned(self) -> str:
        """Id of the cell of the plan."""
        return self.slot[0]

    @property
    def device(self) -> str:
        """UUID of the device it runs on; of several, the one that leads."""
        return self.cell.devices[0]


class Started(msgspec.Struct, frozen=True):
    """A launch was journaled as begun. device: the first of its cell's."""

    launch: int
    slot: Slot
    device: str
    batch_size: int


class Ended(msgspec.Struct, frozen=True):
    """A launch gave a result (failure is None) or failed. Its devices are still taken. figures: for a scan."""

    launch: int
    failure: Failure | None
    figures: Figures | None = None


class Freed(msgspec.Struct, frozen=True):
    """The process of a launch is gone and its device clean. Of several, others may still be there."""

    device: str


class Quarantined(msgspec.Struct, frozen=True):
    """A device is not to be used any more in this run."""

    device: str
    reason: str


class Dropped(msgspec.Struct, frozen=True):
    """There is no time for a launch that waits."""

    slot: Slot


class Postponed(msgspec.Struct, frozen=True):
    """A launch that waits lets the others go first."""

    slot: Slot


class Withdrawn(msgspec.Struct, frozen=True):
    """The result of a launch, recorded earlier, does not count: it is not there any more, or not to be believed."""

    launch: int
    failure: Failure


class StopAsked(msgspec.Struct, frozen=True):
    """A person wants the run to end: begin nothing new."""


class Added(msgspec.Struct, frozen=True):
    """More launches of planned cells, in the order in which each device has them."""

    slots: tuple[Slot, ...]


Event = Started | Ended | Freed | Quarantined | Dropped | Postponed | Withdrawn | StopAsked | Added


def scopes(cell: Cell) -> tuple[str, str, str]:
    """The names under which a planned cell may be skipped, by policy.Reach: its model, its work, or it alone.

    Its work is at an input size, on which both a network and its numbers depend.
    """
    work = f"{cell.model} {cell.workload} {cell.precision}"
    batch = f"batch size {cell.batch_size or 'auto'}"
    if cell.input_size is None:
        return cell.model, work, f"{work} at {batch}"
    size = f"input size {cell.input_size}"
    return cell.model, f"{work} at {size}", f"{work} at {batch} and {size}"


def skipped_as(state: RunState, cell: Cell) -> str:
    """Under which name nothing more is launched of a planned cell; empty where it may be."""
    return next((scope for scope in scopes(cell) if scope in state.skipped), "") if state.skipped else ""


def is_skipped(state: RunState, cell: Cell) -> bool:
    """Whether nothing more is launched of what a planned cell belongs to."""
    return bool(skipped_as(state, cell))


def wait_in_vain(state: RunState) -> dict[str, int]:
    """What `in_vain` has to be. Looks at every slot: for once in a while."""
    found = dict.fromkeys(state.devices, 0)
    for (cell_id, _), slot in state.slots.items():
        cell = state.cells[cell_id]
        if slot.status is SlotStatus.WAITING and is_skipped(state, cell):
            found[cell.devices[0]] += 1
    return found


def rounds(state: RunState, cell: str) -> int:
    """How many rounds there were for a cell, planned or added, whatever became of them: one more than its last.

    Added ones may be without it, where its GPU was out of the run.
    """
    number = 0
    while (cell, number) in state.slots:
        number += 1
    return max((later + 1 for later in range(number, MOST_LAUNCHES) if (cell, later) in state.slots), default=number)


def settled(state: RunState, slot: Slot, status: SlotStatus, *, refers_to: str | None = None) -> RunState:
    """The state with a slot at `status`."""
    return with_slot(state, slot, status=status, refers_to=refers_to)


def with_slot(state: RunState, slot: Slot, **changes: object) -> RunState:
    """The state with fields of a slot changed."""
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
    """The state with fields of a device changed."""
    device = msgspec.structs.replace(state.devices[uuid], **changes)
    return msgspec.structs.replace(state, devices={**state.devices, uuid: device})
