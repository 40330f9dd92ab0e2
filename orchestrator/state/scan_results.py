"""What a scan for the batch size has found, told from its attempts. Pure: the state machine that ran it runs again."""

from collections.abc import Collection, Sequence

from orchestrator.config.run_configuration import Plan, Room
from orchestrator.state import recovery, transitions
from orchestrator.state.archive import Attempt
from orchestrator.state.slots import Ended, Freed, SlotState, Started, Withdrawn
from protocol.cell import Cell
from protocol.failure import Category, Failure, Phase


def replay(cell: Cell, room: Room, attempts: Sequence[Attempt], damaged: Collection[int]) -> SlotState:
    """Where the scan `cell` stands after these attempts of it, in order. damaged: launches whose result is lost."""
    device, slot = cell.devices[0], (cell.id, 0)
    now = transitions.begin(Plan(cells=(cell,), order={device: (slot,)}, rooms={device: room}))
    for attempt in attempts:
        launch = attempt.start.launch
        now = transitions.step(now, Started(launch, slot, device, attempt.start.batch_size))
        failure = attempt.failure if attempt.end else recovery.interrupted()
        figures = attempt.end.figures if attempt.end and failure is None else None
        now = transitions.step(transitions.step(now, Ended(launch, failure, figures)), Freed(device))
        if launch in damaged:
            now = transitions.step(now, Withdrawn(launch, _lost()))
    return now.slots[slot]


def _lost() -> Failure:
    return Failure(category=Category.RESULT_LOST, message="its result file is missing or damaged", phase=Phase.FINISH)
