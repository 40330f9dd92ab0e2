"""Results of the launches of a cell for one shape of its operator. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from orchestrator.analysis.evidence import Evidence
from orchestrator.figures.cells import Status
from orchestrator.figures.operators import OperatorStatus
from protocol import floats
from protocol.cell import Cell, OperatorShape
from protocol.result import ShapeResult

_WITHOUT_SHAPES: Final = {
    Status.UNSUPPORTED: OperatorStatus.UNSUPPORTED,
    Status.DOES_NOT_FIT: OperatorStatus.UNSUPPORTED,
    Status.FAILED: OperatorStatus.FAILED,
}
"""State of a cell without a counted launch → status of its shapes. Others are missing, an interrupted cell too."""


def shape_results(cell: Cell, shape: OperatorShape, evidence: Evidence) -> list[ShapeResult]:
    """Return the shape's results of all counted launches."""
    launches = [evidence.launches[number].result.shapes for number in evidence.outcomes[cell.id].counted]
    return [one for shapes in launches for one in shapes if one.shape == shape.name]


def fate(found: Sequence[ShapeResult], cell: Cell, evidence: Evidence) -> tuple[OperatorStatus, str]:
    """Return the status and its reason. A wrong result decides; a failed launch only if no launch is good."""
    if wrong := [one.wrong for one in found if one.wrong]:
        return OperatorStatus.WRONG, wrong[0]
    if any(not one.error and not one.unsupported for one in found):
        return OperatorStatus.OK, ""
    if unsupported := [one.unsupported for one in found if one.unsupported]:
        return OperatorStatus.UNSUPPORTED, unsupported[0]
    if found:
        return OperatorStatus.FAILED, found[0].error
    outcome = evidence.outcomes[cell.id]
    return _WITHOUT_SHAPES.get(outcome.status, OperatorStatus.MISSING), outcome.reason


def median_ms(found: Sequence[ShapeResult], name: str) -> float | None:
    """Return the median over launches of the medians over calls of a series, in milliseconds; None without times."""
    values = [median(floats.unpack(one.series[name])) for one in found if name in one.series]
    return median(values) if values else None
