"""Trends: a series for each cell (configuration) on each GPU over many runs, with its changes. Pure.

Some runs are shown but not judged: those with injected faults, and those in which the cell has a fault
(compare/cell_facts.py), such as unsteady times, or was not watched for throttling. CPU devices are never judged.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from orchestrator.compare import cell_facts
from orchestrator.config.margins import Margins
from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures.keys import CellKey
from orchestrator.figures.parts import Part
from orchestrator.history.records import Point
from orchestrator.stats import change_points
from protocol.cell import DeviceKind

TAINTED: Final = "tainted: faults were injected on purpose"
_QUIET: Final = frozenset({"seed"})


class TrendPoint(Part, frozen=True, kw_only=True):
    """One run in a trend. value: of the trend's figure, None if the run lacks it. launches: number of launches.

    test_date: start of the run, ISO 8601, UTC. excluded: why the run is not judged, or "". stack: texts, one for each
    version or setting that differs from the run before. change_percent: lasting change of the level that begins with
    this run, above 0 if the figure rose; None without a change.
    """

    run_id: str
    test_date: str
    value: float | None
    launches: int
    excluded: str
    stack: tuple[str, ...]
    change_percent: float | None


class Trend(Part, frozen=True, kw_only=True):
    """A figure of a cell on one device over many runs, oldest run first.

    cell: for people, such as "resnet50 inference bf16 b8". kind, hostname: of the device, newest run. figure: name of
    the figure. margin_percent: smallest change to report.
    """

    cell: str
    key: CellKey
    gpu_uuid: str
    gpu_name: str
    kind: str
    hostname: str
    figure: str
    margin_percent: float
    points: tuple[TrendPoint, ...]


def trends(points: Sequence[Point], margins: Margins, figure: str | None = None) -> tuple[Trend, ...]:
    """Return the trend of each cell on each device. Trends without any value are omitted. points: oldest first.

    figure: name of the figure; None for the main figure of each cell. margins: their `runs` decides which changes are
    large enough to report.
    """
    series: dict[tuple[str, str, CellKey], list[Point]] = {}
    for point in points:
        # A GPU is the same one in another host; CPU devices are called alike on every host.
        host = point.hostname if point.device.kind == DeviceKind.CPU else ""
        series.setdefault((point.cell.gpu_uuid, host, point.cell.key), []).append(point)
    made = (_trend(of_one, margins, figure) for of_one in series.values())
    return tuple(one for one in made if any(point.value is not None for point in one.points))


def figures(points: Sequence[Point]) -> tuple[str, ...]:
    """Return the names of all figures that any of `points` has, sorted."""
    return tuple(sorted({name for point in points for name in point.cell.figures}))


def _trend(points: Sequence[Point], margins: Margins, figure: str | None) -> Trend:
    newest = points[-1]
    shown = figure or next((one.cell.metric for one in reversed(points) if one.cell.launches), newest.cell.metric)
    margin = margins.runs.end_to_end if WORKLOADS[newest.cell.key.phase].end_to_end else margins.runs.cell
    values = [point.cell.figures.get(shown) for point in points]
    excluded = [_exclusion(point, value) for point, value in zip(points, values, strict=True)]
    changed = dict(_changes(values, excluded, margin.share)) if newest.device.kind == DeviceKind.CUDA else {}
    return Trend(
        cell=newest.cell.key.label,
        key=newest.cell.key,
        gpu_uuid=newest.cell.gpu_uuid,
        gpu_name=newest.device.gpu_name,
        kind=newest.device.kind,
        hostname=newest.hostname,
        figure=shown,
        margin_percent=margin.percent,
        points=tuple(
            TrendPoint(
                run_id=point.run_id,
                test_date=point.test_date,
                value=value,
                launches=len(point.cell.launches),
                excluded=why,
                stack=tuple(_differences(points[place - 1], point)) if place else (),
                change_percent=changed.get(place),
            )
            for place, (point, value, why) in enumerate(zip(points, values, excluded, strict=True))
        ),
    )


def _exclusion(point: Point, value: float | None) -> str:
    if point.tainted:
        return TAINTED
    return point.cell.doubt or ("" if value is not None else "no such figure")


def _changes(values: Sequence[float | None], excluded: Sequence[str], margin: float) -> Iterator[tuple[int, float]]:
    """Yield (index in `values`, percent) of each change of the level. The percent is above 0 if values rose.

    Yields nothing if a judged value is zero or less. excluded: for each value why it is not judged, or "". margin:
    smallest change to report, as a share of the level.
    """
    sound = [
        (place, value)
        for place, (value, why) in enumerate(zip(values, excluded, strict=True))
        if value is not None and not why
    ]
    if any(value <= 0 for _, value in sound):
        return
    for change in change_points.find([math.log(value) for _, value in sound], margin):
        yield sound[change.at][0], math.expm1(change.log_ratio) * 100


def _differences(before: Point, after: Point) -> Iterator[str]:
    for one, other in ((before.stack, after.stack), (_facts(before), _facts(after))):
        yield from (change.text for change in cell_facts.differences(one, other) if change.name not in _QUIET)


def _facts(point: Point) -> Mapping[str, str]:
    device = point.device
    limits = {"power limit in W": device.power_limit_w, "memory in MB": device.memory_mb}
    return {**device.stack, **{name: f"{value:g}" for name, value in limits.items() if value is not None}}
