"""Attribute failed launches (processes that measure a model) to the model, the device or earlier faults. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.outcomes import CellOutcome
from orchestrator.figures.cells import Status
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.failure_policy import BEFORE_DEVICE, HARDWARE, POINTS_AT_DEVICE, POLICY, Reaction
from orchestrator.state.fault_placement import Blame, Elsewhere, blame, twins
from protocol.cell import Cell, Device, DeviceKind
from protocol.failure import Category, Failure

_MEASURED: Final = frozenset({Status.OK, Status.DEGRADED})


class Fault(NamedTuple):
    """Cause of a failed launch. text: the cause in a sentence; "" if nothing can be said.

    blame: the model, the device, or UNKNOWN if it could be either or is neither. None: the cause is something else,
    such as an earlier fault of another device, or is not known at all.
    """

    blame: Blame | None
    text: str


def attribute_failures(archive: Archive, evidence: Evidence) -> Mapping[int, Fault]:
    """Return number of failed launch → cause of its failure, even if inconclusive. Faults without text are omitted."""
    run = _Run(archive, evidence.outcomes)
    failed = ((attempt, attempt.failure) for attempt in archive.attempts if attempt.failure is not None)
    faults = {attempt.start.launch: _attribute(run, attempt, failure) for attempt, failure in failed}
    return {launch: fault for launch, fault in faults.items() if fault.text}


@dataclass(frozen=True)
class _Run:
    archive: Archive
    outcomes: Mapping[str, CellOutcome]

    def elsewhere(self, cell: Cell) -> Iterator[tuple[Device, Cell, CellOutcome]]:
        devices = self.archive.devices
        for twin in twins(cell, {uuid: device.name for uuid, device in devices.items()}):
            if twin.id in self.outcomes:
                yield devices[twin.devices[0]], twin, self.outcomes[twin.id]


def _attribute(run: _Run, attempt: Attempt, failure: Failure) -> Fault:
    if POLICY[failure.category].reaction is Reaction.ELSEWHERE:
        return _model_or_device(run, attempt, failure)
    match failure.category:
        case Category.OUT_OF_MEMORY:
            return Fault(None, _too_little_memory(run, attempt))
        case Category.DEVICE_UNAVAILABLE:
            return Fault(None, _consequence(run, attempt))
        case _:
            return Fault(None, "")


def _model_or_device(run: _Run, attempt: Attempt, failure: Failure) -> Fault:
    cell, category = run.archive.cells[attempt.start.cell], failure.category
    if run.outcomes[cell.id].status in _MEASURED:
        return Fault(None, "")
    if failure.stopped:
        return Fault(Blame.UNKNOWN, "neither the model nor the device: an outside signal had stopped the process")
    others: dict[str, Elsewhere] = {}
    for device, twin, outcome in run.elsewhere(cell):
        failed = (other.failure for other in run.archive.tries.get(twin.id, ()))
        failures = tuple(other.category for other in failed if other is not None and not other.stopped)
        others[device.label] = Elsewhere(outcome.status in _MEASURED, failures, pending=False)
    match blame(category, others.values()):
        case Blame.MODEL:
            alike = [label for label, other in others.items() if category in other.failures and not other.measured]
            return Fault(Blame.MODEL, f"the model: the same cell failed in the same way on {' and '.join(alike)}")
        case Blame.DEVICE:
            well = " and ".join(label for label, other in others.items() if other.measured)
            if failure.phase in BEFORE_DEVICE:
                words = f"not the model: measured on {well}. Not the device: the process had not used it yet"
                return Fault(Blame.UNKNOWN, words)
            return Fault(Blame.DEVICE, f"the device: the same cell was measured on {well}")
        case _:
            alone = not any(other.tells for other in others.values())
            found = _by_another_model(run, attempt, failure) if alone else None
            why = "the other devices have no result of this cell" if others else "no other device has the same cell"
            untold = Fault(Blame.UNKNOWN, f"inconclusive: {why}")
            return found or untold


def _by_another_model(run: _Run, attempt: Attempt, failure: Failure) -> Fault | None:
    """Blame the GPU or the model, by launches of other models on the same GPU.

    None if they show nothing, or if the failure does not point at a GPU.
    """
    device = run.archive.devices[attempt.start.device]
    if device.kind is not DeviceKind.CUDA or not _points_at_device(run, attempt, failure):
        return None
    here = [other for other in run.archive.attempts if other.start.device == device.uuid]
    place = here.index(attempt)
    before, after = (
        _first_other_model(run, here[:place][::-1], attempt),
        _first_other_model(run, here[place + 1 :], attempt),
    )
    for other, well in chain(after, before):
        if not well:
            return Fault(Blame.DEVICE, f"probably the device: {other} failed on it too, with no result in between")
    for other, _ in after:
        return Fault(Blame.MODEL, f"probably the model: {other} was measured on the same device right after")
    return None


def _first_other_model(run: _Run, attempts: Iterable[Attempt], attempt: Attempt) -> Sequence[tuple[str, bool]]:
    """Return ((model, has a result),) of the first attempt by another model that shows whether the device works.

    attempts: searched in this order. A result shows that the device works. A failure that points at the device shows
    that it does not, unless another launch gave its cell a result. Returns () if no attempt shows either, or if a
    result of the model of `attempt` comes first.
    """
    own = run.archive.cells[attempt.start.cell].model
    for other in attempts:
        cell, failed = run.archive.cells[other.start.cell], other.failure
        if other.promised is not None:
            return () if cell.model == own else ((cell.model, True),)
        recovered = run.outcomes[cell.id].status in _MEASURED
        if cell.model != own and failed is not None and not recovered and _points_at_device(run, other, failed):
            return ((cell.model, False),)
    return ()


def _points_at_device(run: _Run, attempt: Attempt, failure: Failure) -> bool:
    alone = len(run.archive.cells[attempt.start.cell].devices) == 1
    points = failure.category in POINTS_AT_DEVICE and not failure.stopped
    return alone and points and failure.phase not in BEFORE_DEVICE


def _too_little_memory(run: _Run, attempt: Attempt) -> str:
    cell, size = run.archive.cells[attempt.start.cell], attempt.start.batch_size
    own = run.archive.devices[attempt.start.device]
    alike = [
        device.label
        for device, _, outcome in run.elsewhere(cell)
        if outcome.status in _MEASURED
        and (outcome.batch_size or 0) >= size
        and device.memory_total_bytes == own.memory_total_bytes
    ]
    if not alike:
        return ""
    return f"suspect: batch size {size} fits on {' and '.join(alike)} of the same kind. Find what else uses memory"


def _consequence(run: _Run, attempt: Attempt) -> str:
    for earlier in run.archive.attempts:
        failure, device = earlier.failure, earlier.device
        if failure is None or failure.category not in HARDWARE or device == attempt.start.device:
            continue
        if earlier.started <= attempt.started:
            return f"perhaps a consequence: {run.archive.devices[device].label} had failed before ({failure.category})"
    return ""
