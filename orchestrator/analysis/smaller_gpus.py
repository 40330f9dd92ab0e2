"""Mark cells (model configurations) as suspect that ran out of memory on one GPU, but not on identical ones. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.analysis.outcomes import CellOutcome
from orchestrator.figures.cells import Status
from orchestrator.state.fault_placement import twins
from protocol.cell import Cell, Device, DeviceKind

_RAN_OUT: Final = frozenset({Status.DEGRADED, Status.REFERRED, Status.DOES_NOT_FIT})
_ALIKE_BYTES: Final = 256 * 1024 * 1024  # By how much the memory in use on equal GPUs may differ: what the driver keeps

Outcomes = dict[str, CellOutcome]


def find_suspects(
    devices: Sequence[Device], cells: Iterable[Cell], outcomes: Mapping[str, CellOutcome]
) -> tuple[Outcomes, Outcomes]:
    """Return (suspect, explained): new outcomes of cells that ran out of memory where an identical GPU did not.

    Both are cell id → outcome. Identical GPUs have the same name, whatever their memory. explained: the GPU had more
    memory in use before the run, which the reason now says. suspect: all others. The reason names the GPUs on which the
    cell fits, and the status DOES_NOT_FIT becomes FAILED. Two statuses stay: DEGRADED (a smaller batch size was
    measured) and REFERRED (another planned cell has the smaller batch size).
    """
    by_uuid = {device.uuid: device for device in devices}
    kinds = {device.uuid: device.name for device in devices if device.kind is DeviceKind.CUDA}
    suspect: Outcomes = {}
    explained: Outcomes = {}
    for cell in cells:
        own, outcome = by_uuid[cell.devices[0]], outcomes[cell.id]
        if own.uuid not in kinds or outcome.status not in _RAN_OUT:
            continue
        alike = [by_uuid[twin.devices[0]] for twin in twins(cell, kinds) if _measured(twin, outcomes)]
        if not alike:
            continue
        if more := _more_in_use(own, alike):
            explained[cell.id] = msgspec.structs.replace(outcome, reason=f"{outcome.reason}; {more}")
        else:
            suspect[cell.id] = _suspect(cell, outcome, own, alike)
    return suspect, explained


def _measured(twin: Cell, outcomes: Mapping[str, CellOutcome]) -> bool:
    return twin.id in outcomes and outcomes[twin.id].status is Status.OK


def _more_in_use(own: Device, alike: Sequence[Device]) -> str:
    more = (own.memory_used_bytes or 0) - max(other.memory_used_bytes or 0 for other in alike)
    labels = " and ".join(other.label for other in alike)
    return f"{labels} had {more / 2**30:.1f} GiB less in use before the run" if more > _ALIKE_BYTES else ""


def _suspect(cell: Cell, outcome: CellOutcome, own: Device, alike: Sequence[Device]) -> CellOutcome:
    """Return a new outcome, marked as suspect, for a cell that did not fit on GPU `own`.

    outcome: the outcome so far. alike: identical GPUs on which the cell fitted. The new reason names them, and the
    status DOES_NOT_FIT becomes FAILED.
    """
    labels = " and ".join(other.label for other in alike)
    totals = ", ".join(_total(device) for device in (own, *alike))
    reason = (
        f"suspect: {labels} of the same kind had room for batch size {cell.batch_size} ({totals}); {outcome.reason}"
    )
    status = Status.FAILED if outcome.status is Status.DOES_NOT_FIT else outcome.status
    return msgspec.structs.replace(outcome, status=status, reason=reason)


def _total(device: Device) -> str:
    total = device.memory_total_bytes
    return f"{device.label} has {'unknown memory' if total is None else f'{total / 2**30:.1f} GiB'}"
