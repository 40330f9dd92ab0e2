"""Explain why a GPU is slow: its driver throttled it, or its power limit is lower. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from orchestrator.analysis.cross_gpu import Point, SideBySide
from orchestrator.figures.keys import CellKey
from orchestrator.gpu.telemetry import clock_events
from orchestrator.stats.slowdown_reasons import Reason, Why
from protocol.cell import Device

_HEAT: Final = clock_events.reason_names([0x020 | 0x040])
_BRAKE: Final = clock_events.reason_names([0x080])
_SLOWDOWN: Final = clock_events.reason_names([clock_events.SLOWDOWN])


class Held(NamedTuple):
    """A cell in which a GPU was throttled. cell: key of the cell. point: result of the GPU."""

    cell: CellKey
    point: Point


def throttled_cells(sides: Sequence[SideBySide]) -> dict[str, list[Held]]:
    """Return UUID → cells in which this GPU was throttled. sides: results by cell (cross_gpu.side_by_side)."""
    held: dict[str, list[Held]] = {}
    for side in sides:
        for point in side.points:
            if point.metric.throttled:
                held.setdefault(point.device.uuid, []).append(Held(side.group.cell, point))
    return held


def explain_throttling(held: Sequence[Held]) -> Why | None:
    """Explain throttling by the cell with the largest throttled share of measured time; None if `held` is empty."""
    if not held:
        return None
    cell, (_, metric, _) = max(held, key=lambda throttled: throttled.point.metric.slowdown_percent or 0.0)
    seen = [word for word in _SLOWDOWN if word in metric.clock_event_reasons]
    hottest = "" if metric.temperature_max_c is None else f", up to {metric.temperature_max_c:g} °C"
    return Why(
        reason=_reason(seen),
        words=f"the driver lowered its clock for {metric.slowdown_percent or 0.0:.0f}% of the measured time "
        f"in {cell.label} ({cell.mode}; {', '.join(seen) or 'for temperature, by its counter'}{hottest})",
    )


def _reason(seen: Sequence[str]) -> Reason:
    """Return the probable reason of throttling. seen: NVML's clock event reasons that slow a GPU; none means HEAT."""
    if not seen or any(word in _HEAT for word in seen):
        return Reason.HEAT
    return Reason.POWER if any(word in _BRAKE for word in seen) else Reason.CLOCK


def explain_power_limit(device: Device, group: Sequence[Device]) -> Why | None:
    """Explain slowness by a power limit of `device` below the limit of most of its `group`; None if it is not below.

    group: all identical devices, `device` included. Also None if the limit of `device` is unknown, or if no known limit
    is that of more than half of the group.
    """
    own = device.power_limit_w
    ((usual, times),) = Counter(other.power_limit_w for other in group).most_common(1)
    if own is None or usual is None or own >= usual or 2 * times <= len(group):
        return None
    return Why(reason=Reason.POWER, words=f"its power limit is {own:g} W, that of its siblings {usual:g} W")
