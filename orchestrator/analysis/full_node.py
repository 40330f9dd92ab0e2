"""What a full node costs: the ratio of the same cell with one device at work, and with all of them. Pure.

Anything but the mode must be equal. Figures are geometric means over launches, like the ratio and its interval
(stats/two_runs.py).
"""

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import NamedTuple

import msgspec

from orchestrator.analysis.cross_gpu import measured
from orchestrator.analysis.sibling_cells import UNSTEADY
from orchestrator.config import margins
from orchestrator.figures import keys
from orchestrator.figures.cells import Measured, ModelResult, ProbeMetrics
from orchestrator.figures.comparisons import FullNode
from orchestrator.figures.keys import CellKey
from orchestrator.figures.table import Better, main_figure
from orchestrator.stats import two_runs
from orchestrator.stats.two_runs import Judged, Pair
from protocol.cell import Device, Mode
from protocol.result import SteadyState


class _Both(NamedTuple):
    device: Device
    key: CellKey
    solo: Measured
    loaded: Measured


def full_node(
    devices: Sequence[Device], results: Sequence[ModelResult], probes: Sequence[ProbeMetrics]
) -> tuple[FullNode, ...]:
    """Each cell that a device was to measure in both modes, in the order of the results."""
    found = list(_both(devices, results, probes))
    reasons = [_not_comparable(one) for one in found]
    pairs = [_pair(one) for one, reason in zip(found, reasons, strict=True) if reason is None]
    judged = iter(two_runs.judge(pairs))
    names = keys.names(one.key for one in found)
    return tuple(
        _loss_of_cell(one, names[one.key], reason, next(judged) if reason is None else None)
        for one, reason in zip(found, reasons, strict=True)
    )


def _both(devices: Sequence[Device], results: Sequence[ModelResult], probes: Sequence[ProbeMetrics]) -> Iterator[_Both]:
    known = {device.uuid: device for device in devices}
    cells = {(uuid, key): metric for uuid, key, metric in measured(results, probes)}
    for (uuid, key), metric in cells.items():
        loaded = cells.get((uuid, msgspec.structs.replace(key, mode=Mode.LOADED.value)))
        if key.mode == Mode.SOLO and loaded is not None:
            yield _Both(known[uuid], key, metric, loaded)


def _not_comparable(one: _Both) -> str | None:
    for mode, metric in ((Mode.SOLO, one.solo), (Mode.LOADED, one.loaded)):
        if not metric.launch_values or min(metric.launch_values) <= 0:
            return f"{mode}: no result: {metric.status}"
        if metric.contaminated:
            return f"{mode}: contaminated by another process"
        if metric.throttled:
            return f"{mode}: throttled"
    if one.solo.batch_size != one.loaded.batch_size:
        return f"ran at batch size {one.solo.batch_size} alone, {one.loaded.batch_size} with all at work"
    return None


def _pair(one: _Both) -> Pair:
    return Pair(before=_rates(one, one.loaded), after=_rates(one, one.solo), margin=margins.load().runs.cell.share)


def _rates(one: _Both, metric: Measured) -> list[float]:
    """Rates of each launch: more is faster."""
    is_time = main_figure(one.key.phase, one.key.model_name).better is Better.LOWER
    return [1 / value if is_time else value for value in metric.launch_values]


def _loss_of_cell(one: _Both, cell: str, reason: str | None, judged: Judged | None) -> FullNode:
    return FullNode(
        gpu_uuid=one.device.uuid,
        gpu_id=one.device.gpu_id,
        cell=cell,
        phase=one.key.phase,
        model_name=one.key.model_name,
        precision=one.key.precision,
        input_size=one.key.input_size,
        batch_size_requested=one.key.batch_size,
        metric=main_figure(one.key.phase, one.key.model_name).field,
        solo=_middle(one.solo.launch_values),
        loaded=_middle(one.loaded.launch_values),
        ratio=None if judged is None else judged.ratio,
        low=None if judged is None else judged.low,
        high=None if judged is None else judged.high,
        lost_percent=None if judged is None else (1 - 1 / judged.ratio) * 100,
        not_comparable=reason,
        notes=tuple(_notes(one)) if reason is None else (),
    )


def _notes(one: _Both) -> Iterator[str]:
    modes = {Mode.SOLO: one.solo, Mode.LOADED: one.loaded}
    unsteady = [mode.value for mode, metric in modes.items() if metric.steady_state == SteadyState.NONE]
    if unsteady:
        yield f"{UNSTEADY}: {', '.join(unsteady)}"


def _middle(values: Sequence[float]) -> float | None:
    return geometric_mean(values) if values and min(values) > 0 else None
