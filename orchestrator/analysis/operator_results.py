"""Combine the results of an operator's launches (processes that measure) for one shape (set of sizes). Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from orchestrator.analysis.evidence import Evidence
from orchestrator.figures.cells import Status
from orchestrator.figures.operators import IntervalOver, OperatorStatus, OperatorTime
from orchestrator.stats.launch import HOST_BOUND_FROM, half_width, launch_interval
from protocol import floats
from protocol.cell import Cell, OperatorShape
from protocol.result import ShapeResult

_WITHOUT_SHAPES: Final = {
    Status.UNSUPPORTED: OperatorStatus.UNSUPPORTED,
    Status.DOES_NOT_FIT: OperatorStatus.UNSUPPORTED,
    Status.FAILED: OperatorStatus.FAILED,
}
"""Status of a cell without a valid launch → status of its shapes. In every other state its shapes are MISSING."""


def shape_results(cell: Cell, shape: OperatorShape, evidence: Evidence) -> list[ShapeResult]:
    """Return the results for `shape`, one of each launch that counts for the figures of `cell`.

    Launches that did not measure this shape are skipped.
    """
    launches = [evidence.launches[number].result.shapes for number in evidence.outcomes[cell.id].valid_launches]
    return [one for shapes in launches for one in shapes if one.shape == shape.name]


def fate(results: Sequence[ShapeResult], cell: Cell, evidence: Evidence) -> tuple[OperatorStatus, str]:
    """Return (status, reason) of a shape. The reason is "" if the status is OK.

    The shape is WRONG if any result is wrong, else OK if any result is good, else UNSUPPORTED if any result is, else
    FAILED. Without results, status and reason follow from the outcome of the cell.
    """
    if wrong := [one.wrong for one in results if one.wrong]:
        return OperatorStatus.WRONG, wrong[0]
    if any(not one.error and not one.unsupported for one in results):
        return OperatorStatus.OK, ""
    if unsupported := [one.unsupported for one in results if one.unsupported]:
        return OperatorStatus.UNSUPPORTED, unsupported[0]
    if results:
        return OperatorStatus.FAILED, results[0].error
    outcome = evidence.outcomes[cell.id]
    return _WITHOUT_SHAPES.get(outcome.status, OperatorStatus.MISSING), outcome.reason


def call_time(name: str, results: Sequence[ShapeResult]) -> OperatorTime | None:
    """Return the time of one call in ms, with a 95 % interval; None without times.

    The time is the median over the launches of their median over the calls. results: results of one shape, one for each
    launch. name: of a series of times, such as "pure" (device time). Launches whose median is not above zero are
    skipped. The interval is that between the launches. With too few launches for it, the interval is that between the
    calls of a launch, as the median over the launches.
    """
    unpacked = (floats.unpack(one.series[name]) for one in results if name in one.series)
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


def median_ms(results: Sequence[ShapeResult], name: str) -> float | None:
    """Return a shape's time in ms: the median over launches of the median within a launch; None without times.

    name: the series of times, such as "pure" (device time) or "host" (host time).
    """
    values = [median(floats.unpack(one.series[name])) for one in results if name in one.series]
    return median(values) if values else None


def is_host_bound(results: Sequence[ShapeResult], *, graphed: bool | None) -> bool | None:
    """Whether a shape's measured device time is limited by the host; None if unknown.

    graphed: whether the calls were replayed from a CUDA graph, which needs no host. None (a CPU device) gives None.
    """
    host_ms, device_ms = median_ms(results, "host"), median_ms(results, "pure")
    if graphed is None or host_ms is None or device_ms is None:
        return None
    return not graphed and host_ms >= HOST_BOUND_FROM * device_ms
