"""Figures of a compiled model with changing input sizes, for each way to compile (static, dynamic, padded). Pure."""

from collections.abc import Mapping, Sequence
from statistics import median

from orchestrator.figures.cells import ShapeFigures, ShapeTimes
from protocol.result import ShapeCall, ShapeTrial, ShapeWay


def figures(trials: Sequence[ShapeTrial]) -> tuple[ShapeFigures, ...]:
    """Return the figures of each trial, in their order. A trial is one way to compile: static, dynamic or padded."""
    sizes = {trial.way: _sizes(trial.calls) for trial in trials}
    return tuple(_of_way(trial, sizes) for trial in trials)


def _of_way(trial: ShapeTrial, sizes: Mapping[ShapeWay, tuple[ShapeTimes, ...]]) -> ShapeFigures:
    padded = trial.way is ShapeWay.PADDED
    return ShapeFigures(
        way=trial.way,
        error=trial.error,
        calls=len(trial.calls),
        cache_hits=None if trial.limited or not trial.calls else sum(not call.compiled for call in trial.calls),
        recompilations=trial.recompilations,
        reasons=trial.reasons,
        limited=trial.limited,
        total_ms=sum(call.ms for call in trial.calls) if trial.calls else None,
        padding=trial.padded_elements / trial.elements if padded and trial.elements else None,
        padding_time=_time_ratio(sizes[trial.way], sizes.get(ShapeWay.STATIC, ())) if padded else None,
        sizes=sizes[trial.way],
    )


def _sizes(calls: Sequence[ShapeCall]) -> tuple[ShapeTimes, ...]:
    by_size: dict[int, list[float]] = {}
    for call in calls:
        by_size.setdefault(call.size, []).append(call.ms)
    return tuple(
        ShapeTimes(input_size=size, first_call_ms=first, later_call_ms=median(later) if later else None)
        for size, (first, *later) in sorted(by_size.items())
    )


def _time_ratio(padded: Sequence[ShapeTimes], static: Sequence[ShapeTimes]) -> float | None:
    if [one.input_size for one in padded] != [one.input_size for one in static]:
        return None
    later_ms, static_ms = (sum(one.later_call_ms or 0.0 for one in sizes) for sizes in (padded, static))
    return later_ms / static_ms if later_ms and static_ms else None
