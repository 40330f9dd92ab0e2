"""Select cells for one more launch: cells with a shape that failed in every launch so far. Pure."""

from orchestrator.analysis.evidence import Evidence
from orchestrator.state.added_launches import Doubt, Look
from orchestrator.state.archive import Archive
from protocol.cell import Cell, Workload


def look(archive: Archive, evidence: Evidence) -> Look:
    """Return doubts about cells with a shape (set of sizes) that failed in every launch. Each gets one launch more."""
    doubts = tuple(
        Doubt(cell.devices[0], (cell.id,))
        for cell in archive.stored.plan.cells
        if cell.workload is Workload.OPERATOR and _failed(cell, evidence)
    )
    return Look(doubts, most=archive.stored.configuration.launches + 1, word="shapes failed")


def _failed(cell: Cell, evidence: Evidence) -> bool:
    launches = [evidence.launches[number].result.shapes for number in evidence.outcomes[cell.id].valid_launches]
    names = {one.shape for shapes in launches for one in shapes}
    return bool(names - {one.shape for shapes in launches for one in shapes if not one.error})
