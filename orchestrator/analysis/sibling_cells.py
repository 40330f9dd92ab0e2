"""Judge identical GPUs (siblings) by the cells (models in one configuration) that they measured. Pure.

Each GPU gets a verdict for each mode: solo (others idle) and loaded (all at work). A throttled GPU is compared with
those that were not throttled, and is no reference for them.
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
from orchestrator.figures.parts import UNSTEADY
from orchestrator.gpu.telemetry.clock_events import CLOCK_EVENT_REASONS, POWER_CAP
from orchestrator.plan.probes import PROBES
from orchestrator.stats import stragglers
from orchestrator.stats.sibling_reasons import Work
from orchestrator.stats.stragglers import Bound, Sibling, SiblingCell
from protocol.cell import Workload

CAPPED: Final = CLOCK_EVENT_REASONS[POWER_CAP]


@dataclass(frozen=True)
class JudgedCell:
    """A cell measured on identical GPUs. bound: what limits its rate, such as clock or bandwidth.

    name: of the cell, for people, without its mode (solo, loaded). points: UUID → result of each GPU that was not
    throttled. held: UUID → result of each throttled GPU. Both lack the GPUs in `excluded_gpus`.
    """

    name: str
    key: CellKey
    bound: Bound
    points: Mapping[str, Point]
    held: Mapping[str, Point]

    @property
    def waited(self) -> frozenset[str]:
        """UUIDs of GPUs not judged because the host limits them. Empty unless they are over half of `points`."""
        waited = frozenset(uuid for uuid, point in self.points.items() if point.metric.launch_bound)
        return waited if len(waited) * 2 > len(self.points) else frozenset()

    def points_with(self, uuid: str) -> Mapping[str, Point]:
        """Return UUID → result of the GPUs that were not throttled, and of the GPU `uuid` even if it was."""
        return {**self.points, uuid: self.held[uuid]} if uuid in self.held else self.points


def by_mode(cells: Sequence[JudgedCell]) -> dict[str, dict[str, Sibling]]:
    """Return mode → UUID → verdict on the GPU over all cells of this mode."""
    modes = list(dict.fromkeys(cell.key.mode for cell in cells))
    return {mode: _judged([cell for cell in cells if cell.key.mode == mode], len(modes)) for mode in modes}


def _judged(cells: Sequence[JudgedCell], modes: int) -> dict[str, Sibling]:
    shares = margins.load().shares
    siblings_by_gpu = {sibling.gpu: sibling for sibling in stragglers.judge(_rates(cells), shares, judgements=modes)}
    for uuid in dict.fromkeys(uuid for cell in cells for uuid in cell.held):
        # The spread of its launches, due to heat, must not widen the intervals of the others.
        beside = stragglers.judge(_rates(cells, uuid), shares, judgements=modes)
        siblings_by_gpu |= {sibling.gpu: sibling for sibling in beside if sibling.gpu == uuid}
    return siblings_by_gpu


def _rates(cells: Sequence[JudgedCell], held: str = "") -> list[SiblingCell]:
    return [
        SiblingCell(
            name=cell.name,
            bound=cell.bound,
            rates={uuid: point.metric.launch_values for uuid, point in cell.points_with(held).items()},
            waited=cell.waited,
        )
        for cell in cells
    ]


def judged_cells(sides: Sequence[SideBySide]) -> list[JudgedCell]:
    """Return a JudgedCell for each of `sides`, in their order. Its name is the same in both modes."""
    of_no_mode = [msgspec.structs.replace(side.group.cell, mode="") for side in sides]
    names = keys.names(of_no_mode)
    return [_cell(names[key], side) for key, side in zip(of_no_mode, sides, strict=True)]


def _cell(name: str, side: SideBySide) -> JudgedCell:
    without = excluded_gpus(side)
    judged = {point.device.uuid: point for point in side.points if point.device.uuid not in without}
    held = {uuid: point for uuid, point in judged.items() if point.metric.throttled}
    points = {uuid: point for uuid, point in judged.items() if uuid not in held}
    bound = _bound(side.group.cell, [point.metric for point in (points or held).values()])
    return JudgedCell(name, side.group.cell, bound, points, held)


def excluded_gpus(side: SideBySide) -> dict[str, str]:
    """Return UUID → why this GPU is excluded from the comparison `side` of a cell. Throttling is no such reason."""
    reasons = {}
    for point, reason in zip(side.points, side.reasons, strict=True):
        unusable = "" if min(point.metric.launch_values, default=0.0) > 0 else "no rate above zero"
        # Heat keeps the times of a throttled GPU from settling.
        unsteady = "" if point.steady or point.metric.throttled else UNSTEADY
        if why := ("" if reason == THROTTLED else reason) or unsteady or unusable:
            reasons[point.device.uuid] = why
    return reasons


def _bound(key: CellKey, metrics: Sequence[Measured]) -> Bound:
    if work(key) is not Work.COMPUTE:
        return Bound.BANDWIDTH
    capped = sum(CAPPED in metric.clock_event_reasons for metric in metrics)
    return Bound.POWER if capped * 2 > len(metrics) else Bound.CLOCK


def work(key: CellKey) -> Work:
    """Return what limits the rate of a cell: for a probe what it measures, otherwise COMPUTE."""
    probe = PROBES.get(key.model_name) if key.phase is Workload.PROBE else None
    return Work.COMPUTE if probe is None else probe.work  # a report of another version may have other probes
