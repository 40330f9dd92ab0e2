"""Figures of torch.compile for a cell (a model in one configuration), and its gain over the uncompiled one. Pure."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Final

from msgspec.structs import replace

from orchestrator.analysis import changing_shapes
from orchestrator.figures import keys
from orchestrator.figures.cells import CompilationFigures, Measured, ModelResult, PhaseMetrics
from orchestrator.figures.exit_code import Cause, CauseKind
from orchestrator.figures.report import Report
from protocol.cell import CompileMode, Precision, device_label
from protocol.result import Compilation, Result

TOLERANCE: Final = {Precision.FP32: 1e-3, Precision.TF32: 1e-2, Precision.FP16: 1e-2, Precision.BF16: 5e-2}
"""Precision → largest accepted error of a compiled model's outputs, as a share: a compiler may reorder sums."""


def of_launches(results: Sequence[Result], precision: Precision) -> CompilationFigures | None:
    """Return a cell's figures of torch.compile, still without the speed-up; None if no launch compiled.

    results: of the launches of the cell. precision: of the cell; it decides which error of the outputs is tolerated.
    """
    found = [one.compilation for one in results if one.compilation is not None]
    if not found:
        return None
    cold, cached = [one for one in found if not one.cached], [one for one in found if one.cached]
    error = _largest(found, lambda one: one.relative_error)
    return CompilationFigures(
        own=any(one.own for one in found),
        cold_compile_ms=_median(cold, lambda one: one.compile_ms),
        cached_compile_ms=_median(cached, lambda one: one.compile_ms),
        cold_first_call_ms=_median(cold, lambda one: one.first_call_ms),
        cached_first_call_ms=_median(cached, lambda one: one.first_call_ms),
        graphs=max(one.graphs for one in found),
        graph_breaks=tuple(dict.fromkeys(chain.from_iterable(one.graph_breaks for one in found))),
        recompilations=tuple(dict.fromkeys(chain.from_iterable(one.recompilations for one in found))),
        absolute_error=_largest(found, lambda one: one.absolute_error),
        relative_error=error,
        cosine_distance=_largest(found, lambda one: one.cosine_distance),
        within_tolerance=None if error is None else error <= TOLERANCE[precision],
        shapes=next((changing_shapes.figures(one.shapes) for one in found if one.shapes), ()),
    )


def beside_eager(results: Sequence[ModelResult]) -> tuple[ModelResult, ...]:
    """Return the results in order, and add to each compiled cell its speed-up over the same cell in eager mode.

    No speed-up is added if `results` lacks the time of either cell, if the measured batch sizes differ, or if the
    compiled outputs are wrong. Only inference and training have one.
    """
    eager = {_apart_from_mode(one): one for one in results if one.compile_mode == CompileMode.EAGER}
    return tuple(_compared(one, eager.get(_apart_from_mode(one))) for one in results)


def causes(report: Report) -> Iterator[Cause]:
    """Yield a cause of exit code 1 for each (model, compile mode, precision, device) with wrong compiled outputs."""
    labels = {
        gpu.gpu_uuid: device_label(gpu.kind, gpu.gpu_uuid, gpu.gpu_id, gpu.slice_index) for gpu in report.gpu_info
    }
    wrong: dict[tuple[str, ...], str] = {}
    for result in report.results:
        where = (labels[result.gpu_uuid],) if len(labels) > 1 else ()
        place = (result.model_name, result.compile_mode, result.precision, *where)
        for key, metric in keys.of_model(result):
            if metric.wrong:
                wrong.setdefault(place, f"{key.phase} b{key.batch_size}: {metric.wrong}")
    for place, text in wrong.items():
        yield Cause(kind=CauseKind.WRONG, text=f"WRONG: {', '.join(place)}, {text}")


def _apart_from_mode(one: ModelResult) -> tuple[object, ...]:
    return one.gpu_uuid, one.model_name, one.precision, one.mode, one.input_size, one.memory_format, one.new_tokens


def _compared(one: ModelResult, eager: ModelResult | None) -> ModelResult:
    if eager is None or eager is one:
        return one
    return replace(
        one,
        inference_metrics=_of_phase(one.inference_metrics, eager.inference_metrics),
        training_metrics=_of_phase(one.training_metrics, eager.training_metrics),
    )


def _of_phase(compiled: dict[str, PhaseMetrics], eager: dict[str, PhaseMetrics]) -> dict[str, PhaseMetrics]:
    return {key: _of_batch(metric, eager[key]) if key in eager else metric for key, metric in compiled.items()}


def _of_batch(compiled: PhaseMetrics, eager: PhaseMetrics) -> PhaseMetrics:
    figures = compiled.compilation
    eager_ms, compiled_ms = eager.total_iteration_time_ms, compiled.total_iteration_time_ms
    same_batch = eager.batch_size == compiled.batch_size
    if figures is None or compiled.wrong or not eager_ms or not compiled_ms or not same_batch:
        return compiled
    speed_up, spreads = eager_ms / compiled_ms, (_half_width(eager), _half_width(compiled))
    spread = None if None in spreads else math.hypot(*filter(None, spreads))
    memory = (compiled.peak_memory_mb, eager.peak_memory_mb)
    figures = replace(
        figures,
        speed_up=speed_up,
        speed_up_low=None if spread is None else speed_up * max(1 - spread, 0.0),
        speed_up_high=None if spread is None else speed_up * (1 + spread),
        memory_of_eager=memory[0] / memory[1] if memory[0] and memory[1] else None,
        pays_after_iterations=_pays_after(figures.cold_first_call_ms, eager_ms, compiled_ms),
    )
    return replace(compiled, compilation=figures)


def _pays_after(first_call_ms: float | None, eager_ms: float, compiled_ms: float) -> int | None:
    if first_call_ms is None or compiled_ms >= eager_ms:
        return None
    return math.ceil(max(first_call_ms - eager_ms, 0.0) / (eager_ms - compiled_ms))


def _half_width(metric: Measured) -> float | None:
    """Return half the 95 % interval of a cell's time, as a share of the time; None if unknown.

    From three launches on, it is the interval between launches, else the interval within a launch. With two launches,
    it is at least half their difference.
    """
    within, spread = metric.relative_half_width, metric.launch_spread_percent
    if metric.launch_interval_percent is not None:
        return metric.launch_interval_percent / 100
    return within if within is None or spread is None else max(within, spread / 200)


def _median(found: Sequence[Compilation], read: Callable[[Compilation], float | None]) -> float | None:
    values = [value for one in found if (value := read(one)) is not None]
    return median(values) if values else None


def _largest(found: Sequence[Compilation], read: Callable[[Compilation], float | None]) -> float | None:
    return max((value for one in found if (value := read(one)) is not None), default=None)
