"""Where a run stands after what its journal tells: for `resume`, and for every run as it begins. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Plan, Slot
from orchestrator.gpu.telemetry.foreign_use import ForeignUse
from orchestrator.state.slots import (
    Added,
    Dropped,
    Ended,
    Freed,
    RunState,
    SlotStatus,
    Started,
    Withdrawn,
    settled,
    with_device,
)
from orchestrator.state.transitions import begin, step
from orchestrator.store.records import Added as AddedRecord
from orchestrator.store.records import Beside, End, Foreign, Left, Record, Segment, Start, TakenOut
from orchestrator.store.records import Dropped as DroppedRecord
from protocol.failure import Category, Failure, Phase

_IN_WANT: Final = frozenset({SlotStatus.DROPPED, SlotStatus.DOES_NOT_FIT})


def restore(
    plan: Plan,
    records: Iterable[Record],
    kinds: Mapping[str, str] | None = None,
    gpus: Collection[str] = (),
    *,
    night: bool = False,
) -> RunState:
    """The state that the journal's records lead to. kinds, gpus: as for state.begin. night: it is a burn-in.

    A Start without an End was interrupted, and counts as an attempt. A second End takes a result back. What follows
    from an end (a model that is skipped, a device that is taken out) is not read but follows again. With each segment
    devices get another chance: whoever resumes a run may have mended them, or ended what took the host's memory. So do
    the launches of a burn-in for which there was no time or no memory: with each segment it has the time that it lacks.

    A device that was taken out of a burn-in has no other chance there, unless all were. It would be rounds behind, and
    the links of those rounds would keep the sound ones waiting until it has caught up. Nobody waits for it.

    A burn-in skips nothing: what failed on one device is to be done again, there and on all others.
    """
    now = begin(plan, kinds, gpus, skips=not night)
    out: dict[str, str] = {}
    order = {uuid: [*queue] for uuid, queue in plan.order.items()}
    open_launches: dict[int, Start] = {}
    for record in records:
        match record:
            case Segment():
                out = staying_out(now.devices, out) if night else {}
                now = _another_chance(now, out)
                now = _waiting_again(now, order) if night else now
            case TakenOut():
                out[record.device] = record.reason
            case Start():
                open_launches[record.launch] = record
                slot = (record.cell, record.round)
                now = step(now, Started(record.launch, slot, record.device, record.batch_size))
            case End() if record.launch in open_launches:
                start = open_launches.pop(record.launch)
                now = _freed(step(now, Ended(record.launch, record.failure, record.figures)), start)
            case End() if record.failure is not None:
                now = step(now, Withdrawn(record.launch, record.failure))
            case AddedRecord():
                now = step(now, Added(record.slots))
                for slot in record.slots:
                    for uuid in now.cells[slot[0]].devices:
                        order[uuid].append(slot)
            case DroppedRecord():
                now = step(now, Dropped((record.cell, record.round)))
            case _:
                pass
    for launch, start in open_launches.items():
        now = _freed(step(now, Ended(launch, interrupted())), start)
    return now


def _freed(now: RunState, start: Start) -> RunState:
    """The state without a launch on its devices. Nobody works on them while a journal is read."""
    for uuid in now.cells[start.cell].devices:
        now = step(now, Freed(uuid))
    return now


def staying_out(devices: Collection[str], out: Mapping[str, str]) -> dict[str, str]:
    """Devices that have no other chance, and why, where a burn-in is taken up again: who is out, unless all are.

    The same ones are not waited for: what they lack of their time is nothing that `resume` could make up for.
    """
    return {} if out.keys() >= {*devices} else dict(out)


def _another_chance(now: RunState, out: Mapping[str, str]) -> RunState:
    """The state in which nothing is held against devices but those that stay out, and why."""
    devices = {
        uuid: msgspec.structs.replace(one, quarantined=out.get(uuid, ""), strikes=(), doubts=())
        for uuid, one in now.devices.items()
    }
    return msgspec.structs.replace(now, devices=devices, at_once=None)


def _waiting_again(now: RunState, order: Mapping[str, Sequence[Slot]]) -> RunState:
    """The state in which what was dropped for want of time, or found no memory, waits again, where it was before.

    order: of every launch, as each device has them, so that all come to those on several devices in the same order.
    """
    now = msgspec.structs.replace(now, too_large={})
    wanted = {slot for slot, known in now.slots.items() if known.status in _IN_WANT}
    if not wanted:
        return now
    for slot in wanted:
        now = settled(now, slot, SlotStatus.WAITING)
    waits = {slot for slot, known in now.slots.items() if known.status is SlotStatus.WAITING}
    for uuid, slots in order.items():
        now = with_device(now, uuid, queue=tuple(slot for slot in slots if slot in waits))
    return now


def beside_others(plan: Plan, records: Iterable[Record]) -> dict[int, str]:
    """Launches with a result beside which the journal has seen somebody else and says nothing of it, and whom.

    The process that worked on the run was killed between the result and what it would have said. As there, a launch is
    looked at when its device is free again (Left); one whose device never was, at the end of its segment.
    """
    devices = {cell.id: cell.devices for cell in plan.cells}
    use, running = ForeignUse(), dict[int, Start]()

    def who(start: Start) -> str:
        return use.beside(devices[start.cell], start.at_ns)

    found: dict[int, str] = {}
    good: set[int] = set()
    for record in records:
        match record:
            case Segment():
                found |= {launch: who(start) for launch, start in running.items()}
                use, running = ForeignUse(), {}
            case Foreign():
                use.note(record.device, record.by, record.at_ns)
            case Start():
                running[record.launch] = record
            case End(failure=None):
                good.add(record.launch)
            case End() | Beside():
                good.discard(record.launch)
            case Left() if record.launch in running:
                start = running.pop(record.launch)
                found[record.launch] = who(start)
    found |= {launch: who(start) for launch, start in running.items()}
    return {launch: words for launch, words in found.items() if words and launch in good}


def interrupted(phase: Phase = Phase.START) -> Failure:
    """The failure of an attempt whose orchestrator died. phase: that it had reached, as far as is known."""
    return Failure(
        category=Category.INTERRUPTED,
        message="the orchestrator ended while this attempt was running",
        phase=phase,
    )
