"""Compare the speed of each cell with all devices at work (loaded) and with only its own (solo). Pure."""

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import NamedTuple

import msgspec

from orchestrator.analysis.cross_gpu import measured
from orchestrator.config import margins
from orchestrator.figures import keys
from orchestrator.figures.cells import Measured, ModelResult, ProbeMetrics
from orchestrator.figures.comparisons import FullNode
from orchestrator.figures.keys import CellKey
from orchestrator.figures.parts import UNSTEADY
from orchestrator.figures.table import Better, main_figure
from orchestrator.stats import two_runs
from orchestrator.stats.two_runs import Judged, Pair
from protocol.cell import Device, Mode
from protocol.failure import Category
from protocol.result import SteadyState


class _Both(NamedTuple):
    device: Device
    key: CellKey
    solo: Measured
    loaded: Measured


def full_node(
    devices: Sequence[Device], results: Sequence[ModelResult], probes: Sequence[ProbeMetrics]
) -> tuple[FullNode, ...]:
    """Return for each cell how much slower it runs with all devices at work (loaded) than with one alone (solo).

    A cell on two devices counts as two. The cells of `results` come first, in their order, then those of `probes`. A
    cell that is not planned in both modes is omitted, and so is a batch size scan that found another size in each. If
    its two results cannot be compared, `not_comparable` says why.
    """
    cells = list(_both(devices, results, probes))
    reasons = [_not_comparable(cell) for cell in cells]
    pairs = [_pair(cell) for cell, reason in zip(cells, reasons, strict=True) if reason is None]
    judged = iter(two_runs.judge(pairs))
    names = keys.names(cell.key for cell in cells)
    return tuple(
        _loss_of_cell(cell, names[cell.key], reason, next(judged) if reason is None else None)
        for cell, reason in zip(cells, reasons, strict=True)
    )


def _both(devices: Sequence[Device], results: Sequence[ModelResult], probes: Sequence[ProbeMetrics]) -> Iterator[_Both]:
    by_uuid = {device.uuid: device for device in devices}
    cells = {(uuid, key): metric for uuid, key, metric in measured(results, probes)}
    for (uuid, key), metric in cells.items():
        loaded = cells.get((uuid, msgspec.structs.replace(key, mode=Mode.LOADED.value)))
        if key.mode == Mode.SOLO and loaded is not None:
            yield _Both(by_uuid[uuid], key, metric, loaded)


def _not_comparable(cell: _Both) -> str | None:
    for mode, metric in ((Mode.SOLO, cell.solo), (Mode.LOADED, cell.loaded)):
        if not metric.launch_values or min(metric.launch_values) <= 0:
            return f"{mode}: no result: {metric.status}"
        if metric.contaminated:
            return f"{mode}: {Category.CONTAMINATED}"
        if metric.throttled:
            return f"{mode}: throttled"
    if cell.solo.batch_size != cell.loaded.batch_size:
        return f"ran at batch size {cell.solo.batch_size} alone, {cell.loaded.batch_size} with all at work"
    return None


def _pair(cell: _Both) -> Pair:
    return Pair(before=_rates(cell, cell.loaded), after=_rates(cell, cell.solo), margin=margins.load().runs.cell.share)


def _rates(cell: _Both, metric: Measured) -> list[float]:
    is_time = main_figure(cell.key.phase, cell.key.model_name).better is Better.LOWER
    return [1 / value if is_time else value for value in metric.launch_values]


def _loss_of_cell(both: _Both, name: str, reason: str | None, judged: Judged | None) -> FullNode:
    return FullNode(
        gpu_uuid=both.device.uuid,
        gpu_id=both.device.gpu_id,
        cell=name,
        phase=both.key.phase,
        model_name=both.key.model_name,
        precision=both.key.precision,
        input_size=both.key.input_size,
        batch_size_requested=both.key.batch_size,
        metric=main_figure(both.key.phase, both.key.model_name).field,
        solo=_middle(both.solo.launch_values),
        loaded=_middle(both.loaded.launch_values),
        ratio=None if judged is None else judged.ratio,
        low=None if judged is None else judged.low,
        high=None if judged is None else judged.high,
        lost_percent=None if judged is None else (1 - 1 / judged.ratio) * 100,
        not_comparable=reason,
        notes=tuple(_notes(both)) if reason is None else (),
    )


def _notes(cell: _Both) -> Iterator[str]:
    modes = {Mode.SOLO: cell.solo, Mode.LOADED: cell.loaded}
    unsteady = [mode.value for mode, metric in modes.items() if metric.steady_state == SteadyState.NONE]
    if unsteady:
        yield f"{UNSTEADY}: {', '.join(unsteady)}"


def _middle(values: Sequence[float]) -> float | None:
    return geometric_mean(values) if values and min(values) > 0 else None
