"""Caveats about a figure, in words and as a mark."""

from collections.abc import Iterator
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.cells import Computed, GenerationMetrics, Measured, PhaseMetrics, Status
from orchestrator.figures.parts import SHARE_IN_DOUBT
from protocol.intervals import BATCHES
from protocol.result import SteadyState

CLOCK_LIMIT_PERCENT: Final = 1.0
MARK: Final = "*"
MARKED: Final = "in doubt (below its table it is said why)"


def remark(metric: Measured, *, interval: bool = True) -> str:
    """The caveats, empty for none. interval: whether to explain a missing one."""
    return "; ".join(_remarks(metric, interval=interval))


def mark(metric: Measured) -> str:
    """MARK for a figure in doubt, else empty. Launch-bound is no doubt."""
    doubtful = (
        metric.degraded
        or metric.steady_state == SteadyState.NONE
        or metric.drifting
        or _clock_moved(metric)
        or metric.throttled
        or metric.contaminated
        or (isinstance(metric, Computed) and metric.plausibility.flags)
    )
    return MARK if doubtful else ""


def _clock_moved(metric: Measured) -> bool:
    """The worker has the same limit for times."""
    return metric.sm_clock_drift_percent is not None and abs(metric.sm_clock_drift_percent) > CLOCK_LIMIT_PERCENT


def _planned_and_made(metric: Measured) -> int:
    """Number of planned launches with a result. Added launches replace none."""
    good = {one.round for one in metric.attempts if one.outcome == "result" and one.batch_size == metric.batch_size}
    return sum(number < metric.launches_planned for number in good)


def _faster_than_its_part(metric: PhaseMetrics) -> bool:
    latency_ms, forward_ms = metric.inference_latency_ms, metric.forward_time_ms
    return latency_ms is not None and forward_ms is not None and latency_ms < forward_ms


def _remarks(metric: Measured, *, interval: bool) -> Iterator[str]:
    if metric.reason:
        yield metric.reason
    if metric.launches and (made := _planned_and_made(metric)) < metric.launches_planned:
        yield f"{made} of {metric.launches_planned} launches"
    if metric.steady_state == SteadyState.NONE:
        yield "not steady after warm-up"
    if interval and metric.launches and metric.relative_half_width is None:
        yield f"fewer than {BATCHES} values: no interval"
    if metric.drifting and metric.drift_percent is not None:
        yield f"drifting by {metric.drift_percent:+.1f}%"
    if _clock_moved(metric):
        yield f"the SM clock moved by {metric.sm_clock_drift_percent:+.1f}%"
    if metric.launch_bound:
        yield "launch-bound: the GPU waits for the host"
    if metric.contaminated:
        yield "contaminated by another process on the GPU"
    if metric.throttled and metric.slowdown_percent is not None:
        yield f"throttled for {metric.slowdown_percent:.0f}% of the time"
    if isinstance(metric, Computed):
        yield from _of_computed(metric)
    if isinstance(metric, GenerationMetrics) and metric.tokens_complete is False:
        yield f"{metric.tokens_generated} tokens arrived, {metric.tokens_expected} were expected"


def _of_computed(metric: Computed) -> Iterator[str]:
    yield from metric.plausibility.flags
    if metric.plausibility.note.startswith(SHARE_IN_DOUBT):
        yield metric.plausibility.note.partition("; ")[0]
    if isinstance(metric, PhaseMetrics) and _faster_than_its_part(metric):
        yield (
            f"the latency ({plural(metric.inference_latency_values or 0, 'value')}) is below the forward time, which "
            "is a part of it: too few passes, or times too noisy, to compare the two"
        )


SHORT: Final = {
    Status.REFERRED: ("ref", "measured as another planned batch size"),
    Status.DOES_NOT_FIT: ("oom", "does not fit into memory"),
    Status.FAILED: ("fail", "failed"),
    Status.DROPPED: ("drop", "dropped for want of time"),
    Status.MISSING: ("miss", "not measured"),
}
"""Reasons for a missing value: short for a table, long for its legend."""
