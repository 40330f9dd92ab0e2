"""Whose fault a failure was, in words for the report, as far as the other devices of the run tell. Pure.

crash, poisoned process, NaN    the model or the device: placement.py decides
out of memory                   suspect where an identical GPU had room for the same
device unavailable              maybe only a consequence of an earlier hardware failure of another GPU
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.deciding.placement import Blame, Elsewhere, blame, twins
from orchestrator.deciding.policy import HARDWARE, POLICY, Reaction
from orchestrator.disk.archive import Archive, Attempt
from orchestrator.disk.evidence import Evidence
from orchestrator.disk.outcomes import CellOutcome, Status
from protocol.cell import Cell, Device
from protocol.failure import Category, Failure

_MEASURED: Final = frozenset({Status.OK, Status.DEGRADED})


def whose_fault(archive: Archive, evidence: Evidence) -> Mapping[int, str]:
    """Launch → whose fault its failure was, for those of which there is something to say."""
    tries: dict[str, list[Attempt]] = {}
    for attempt in archive.attempts:
        tries.setdefault(attempt.start.cell, []).append(attempt)
    run = _Run(
        cells={cell.id: cell for cell in archive.stored.plan.cells},
        devices={device.uuid: device for device in archive.stored.devices},
        attempts=archive.attempts,
        tries=tries,
        outcomes=evidence.outcomes,
    )
    failed = ((attempt, attempt.failure) for attempt in archive.attempts if attempt.failure is not None)
    told = {attempt.start.launch: _tell(run, attempt, failure) for attempt, failure in failed}
    return {launch: words for launch, words in told.items() if words}


@dataclass(frozen=True)
class _Run:
    """What there is to look at. tries: attempts by cell."""

    cells: Mapping[str, Cell]
    devices: Mapping[str, Device]
    attempts: Iterable[Attempt]
    tries: Mapping[str, list[Attempt]]
    outcomes: Mapping[str, CellOutcome]

    def elsewhere(self, cell: Cell) -> Iterator[tuple[Device, Cell, CellOutcome]]:
        """The same cell on other devices of its kind, and what became of it there."""
        for twin in twins(cell, {uuid: device.name for uuid, device in self.devices.items()}):
            if twin.id in self.outcomes:
                yield self.devices[twin.devices[0]], twin, self.outcomes[twin.id]


def _tell(run: _Run, attempt: Attempt, failure: Failure) -> str:
    if POLICY[failure.category].reaction is Reaction.ELSEWHERE:
        return _model_or_device(run, attempt, failure.category)
    teller = _TELLERS.get(failure.category)
    return "" if teller is None else teller(run, attempt)


def _model_or_device(run: _Run, attempt: Attempt, category: Category) -> str:
    """Empty where a retry of the cell worked: then it was neither's."""
    cell = run.cells[attempt.start.cell]
    if run.outcomes[cell.id].status in _MEASURED:
        return ""
    others: dict[str, Elsewhere] = {}
    for device, twin, outcome in run.elsewhere(cell):
        failures = tuple(one.failure.category for one in run.tries.get(twin.id, ()) if one.failure)
        others[device.label] = Elsewhere(outcome.status in _MEASURED, failures, pending=False)
    match blame(category, others.values()):
        case Blame.MODEL:
            alike = [label for label, other in others.items() if category in other.failures and not other.measured]
            return f"the model's: the same cell failed in the same way on {' and '.join(alike)}"
        case Blame.DEVICE:
            well = [label for label, other in others.items() if other.measured]
            return f"the device's: the same cell was measured on {' and '.join(well)}"
        case _:
            why = "the other devices gave no answer" if others else "no other device has the same cell"
            return f"the model's or the device's, which could not be told: {why}"


def _too_little_memory(run: _Run, attempt: Attempt) -> str:
    cell, size = run.cells[attempt.start.cell], attempt.start.batch_size
    own = run.devices[attempt.start.device]
    alike = [
        device.label
        for device, _, outcome in run.elsewhere(cell)
        if outcome.status in _MEASURED
        and (outcome.batch_size or 0) >= size
        and device.memory_total_bytes == own.memory_total_bytes
    ]
    if not alike:
        return ""
    return f"suspect: batch size {size} fits on {' and '.join(alike)}, which is of the same kind; see what else uses it"


def _consequence(run: _Run, attempt: Attempt) -> str:
    for earlier in run.attempts:
        failure, device = earlier.failure, earlier.start.device
        if failure is None or failure.category not in HARDWARE or device == attempt.start.device:
            continue
        if earlier.started <= attempt.started:
            return f"maybe nobody's here: {run.devices[device].label} had failed before ({failure.category})"
    return ""


_TELLERS: Final[Mapping[Category, Callable[[_Run, Attempt], str]]] = {
    Category.OUT_OF_MEMORY: _too_little_memory,
    Category.DEVICE_UNAVAILABLE: _consequence,
}
