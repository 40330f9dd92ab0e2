"""Where a run stands after what its journal tells: for `resume`, and for every run as it begins. Pure."""

from collections.abc import Iterable

import msgspec

from orchestrator.configuration import Plan
from orchestrator.records import Dropped as DroppedRecord
from orchestrator.records import End, Record, Start
from orchestrator.slots import Dropped, Ended, Freed, RunState, Started, Withdrawn
from orchestrator.state import begin, step
from protocol.failure import Category, Failure, Phase


def restore(plan: Plan, records: Iterable[Record]) -> RunState:
    """The state that the journal's records lead to.

    A Start without an End was interrupted, and counts as an attempt. A second End takes a result back.
    Devices that were taken out get another chance: whoever resumes a run may have mended them.
    """
    now = begin(plan)
    open_launches: dict[int, Start] = {}
    for record in records:
        match record:
            case Start():
                open_launches[record.launch] = record
                slot = (record.cell, record.round)
                now = step(now, Started(record.launch, slot, record.device, record.batch_size))
            case End() if record.launch in open_launches:
                start = open_launches.pop(record.launch)
                now = step(step(now, Ended(record.launch, record.failure, record.figures)), Freed(start.device))
            case End() if record.failure is not None:
                now = step(now, Withdrawn(record.launch, record.failure))
            case DroppedRecord():
                now = step(now, Dropped((record.cell, record.round)))
            case _:
                pass
    for launch, start in open_launches.items():
        now = step(step(now, Ended(launch, interrupted())), Freed(start.device))
    devices = {uuid: msgspec.structs.replace(one, quarantined="") for uuid, one in now.devices.items()}
    return msgspec.structs.replace(now, devices=devices)


def interrupted() -> Failure:
    """The failure of an attempt whose orchestrator died."""
    return Failure(
        category=Category.INTERRUPTED,
        message="the orchestrator ended while this attempt was running",
        phase=Phase.START,
    )
