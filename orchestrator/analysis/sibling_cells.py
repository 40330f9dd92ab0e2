"""What is judged of identical GPUs: their cells side by side, and what these say of each GPU in each mode. Pure.

    cells side by side (cross_gpu.py) ── what does not compare is left out, and said ── siblings.py ──▶ a verdict a mode

Two runs are not compared where one was throttled, but beside siblings that is what is asked for. Such a GPU is judged
beside those that were not, and is no measure of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from orchestrator.analysis.cross_gpu import THROTTLED, Point, SideBySide
from orchestrator.config import margins
from orchestrator.figures import keys
from orchestrator.figures.cells import Measured
from orchestrator.figures.keys import CellKey
from orchestrator.gpu.telemetry.clock_events import CLOCK_EVENT_REASONS, POWER_CAP
from orchestrator.plan.probes import PROBES
from orchestrator.stats import siblings
from orchestrator.stats.sibling_reasons import Work
from orchestrator.stats.siblings import Bound, Sibling, SiblingCell
from protocol.cell import Workload

UNSTEADY: Final = "not steady after warm-up"
CAPPED: Final = CLOCK_EVENT_REASONS[POWER_CAP]


@dataclass(frozen=True)
class JudgedCell:
    """A cell of identical GPUs, and those of its points that are judged. held: of GPUs that were held down in it."""

    name: str
    key: CellKey
    bound: Bound
    points: Mapping[str, Point]
    held: Mapping[str, Point]

    def beside(self, uuid: str) -> Mapping[str, Point]:
        """Among whom that GPU is judged, itself included where the cell says anything of it."""
        return {**self.points, uuid: self.held[uuid]} if uuid in self.held else self.points


def by_mode(cells: Sequence[JudgedCell]) -> dict[str, dict[str, Sibling]]:
    """By mode and GPU, the verdict over the cells of one mode."""
    modes = list(dict.fromkeys(cell.key.mode for cell in cells))
    return {mode: _judged([cell for cell in cells if cell.key.mode == mode], len(modes)) for mode in modes}


def _judged(cells: Sequence[JudgedCell], modes: int) -> dict[str, Sibling]:
    """By GPU, the verdict over the cells of one mode."""
    shares = margins.load().shares
    found = {one.gpu: one for one in siblings.judge(_rates(cells), shares, asked=modes)}
    for uuid in dict.fromkeys(uuid for cell in cells for uuid in cell.held):
        # Its launches differ by how hot it was: that must not widen what is said of the others.
        beside = siblings.judge(_rates(cells, uuid), shares, asked=modes)
        found |= {one.gpu: one for one in beside if one.gpu == uuid}
    return found


def _rates(cells: Sequence[JudgedCell], held: str = "") -> list[SiblingCell]:
    """What is judged: the GPUs that were not held down, and that one."""
    return [
        SiblingCell(
            name=cell.name,
            bound=cell.bound,
            rates={uuid: point.metric.launch_values for uuid, point in cell.beside(held).items()},
        )
        for cell in cells
    ]


def judged_cells(sides: Sequence[SideBySide]) -> list[JudgedCell]:
    """Modes are named beside the cells, so names tell apart what is the same mode."""
    of_no_mode = [msgspec.structs.replace(side.group.cell, mode="") for side in sides]
    names = keys.names(of_no_mode)
    return [_cell(names[key], side) for key, side in zip(of_no_mode, sides, strict=True)]


def _cell(name: str, side: SideBySide) -> JudgedCell:
    without = left_out(side)
    judged = {point.device.uuid: point for point in side.points if point.device.uuid not in without}
    held = {uuid: point for uuid, point in judged.items() if point.metric.throttled}
    points = {uuid: point for uuid, point in judged.items() if uuid not in held}
    bound = _bound(side.group.cell, [point.metric for point in (points or held).values()])
    return JudgedCell(name, side.group.cell, bound, points, held)


def left_out(side: SideBySide) -> dict[str, str]:
    """The GPUs of which a cell says nothing, and why."""
    found = {}
    for point, reason in zip(side.points, side.reasons, strict=True):
        unusable = "" if min(point.metric.launch_values, default=0.0) > 0 else "no rate above zero"
        # Heat is why the times of such a GPU do not settle.
        unsteady = "" if point.steady or point.metric.throttled else UNSTEADY
        if why := ("" if reason == THROTTLED else reason) or unsteady or unusable:
            found[point.device.uuid] = why
    return found


def _bound(key: CellKey, metrics: Sequence[Measured]) -> Bound:
    """What limits a cell: power where the driver said so on most GPUs."""
    if work(key) is not Work.COMPUTE:
        return Bound.BANDWIDTH
    capped = sum(CAPPED in metric.clock_event_reasons for metric in metrics)
    return Bound.POWER if capped * 2 > len(metrics) else Bound.CLOCK


def work(key: CellKey) -> Work:
    """What a cell works on most."""
    probe = PROBES.get(key.model_name) if key.phase is Workload.PROBE else None
    return Work.COMPUTE if probe is None else probe.work  # a report of another version may have other probes
