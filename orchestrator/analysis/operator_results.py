"""Combine what the launches of an operator's cell measured for one shape, that is one set of sizes. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from orchestrator.analysis.evidence import Evidence
from orchestrator.figures.cells import Status
from orchestrator.figures.operators import IntervalOver, OperatorStatus, OperatorTime
from orchestrator.stats.launch import half_width, launch_interval
from protocol import floats
from protocol.cell import Cell, OperatorShape
from protocol.result import HOST_BOUND_FROM, ShapeResult

_WITHOUT_SHAPES: Final = {
    Status.UNSUPPORTED: OperatorStatus.UNSUPPORTED,
    Status.DOES_NOT_FIT: OperatorStatus.UNSUPPORTED,
    Status.FAILED: OperatorStatus.FAILED,
}
"""State of a cell without a counted launch → status of its shapes. Others are missing, an interrupted cell too."""


def shape_results(cell: Cell, shape: OperatorShape, evidence: Evidence) -> list[ShapeResult]:
    """Return the results for the shape, of all launches that count for the cell."""
    launches = [evidence.launches[number].result.shapes for number in evidence.outcomes[cell.id].valid_launches]
    return [one for shapes in launches for one in shapes if one.shape == shape.name]


def fate(found: Sequence[ShapeResult], cell: Cell, evidence: Evidence) -> tuple[OperatorStatus, str]:
    """Return the status of a shape and its reason. One wrong result makes it WRONG, else one good result OK."""
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


def call_time(name: str, found: Sequence[ShapeResult]) -> OperatorTime | None:
    """Return the time per call of the series `name` over launches; None if no launch has a time above zero."""
    unpacked = (floats.unpack(one.series[name]) for one in found if name in one.series)
    launches = [times for times in unpacked if times and median(times) > 0]
    if not launches:
        return None
    values = tuple(median(times) for times in launches)
    over_launches = launch_interval(values)
    within = [width for times in launches if (width := half_width(times)) is not None]
    share = over_launches if over_launches is not None else median(within) if within else None
    return OperatorTime(
        call_ms=median(values),
        launch_values=values,
        interval_percent=None if share is None else 100 * share,
        interval_over=IntervalOver.CALLS if over_launches is None else IntervalOver.LAUNCHES,
    )


def median_ms(found: Sequence[ShapeResult], name: str) -> float | None:
    """Return the median over launches of each launch's median of the series `name`, in ms; None without times."""
    values = [median(floats.unpack(one.series[name])) for one in found if name in one.series]
    return median(values) if values else None


def is_host_bound(found: Sequence[ShapeResult], *, graphed: bool | None) -> bool | None:
    """Whether the host limits the device time; None if unknown. graphed: CUDA graph used, None on a CPU device."""
    host_ms, device_ms = median_ms(found, "host"), median_ms(found, "pure")
    if graphed is None or host_ms is None or device_ms is None:
        return None
    return not graphed and host_ms >= HOST_BOUND_FROM * device_ms
