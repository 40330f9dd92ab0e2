"""Quality of a cell's result in a word, decided here for every format of the report. Pure.

The first true condition in _OF_A_MEASUREMENT gives the quality; without one it is OK. Causes precede their effects: a
cell that waits for the host is noisy, too.
"""

import enum
from collections.abc import Callable
from typing import Final

from orchestrator.figures.cells import Computed, Measured, Status
from orchestrator.gpu.telemetry.clock_events import CLOCK_EVENT_REASONS, POWER_CAP
from orchestrator.stats.slowdown_reasons import CAPPED_SHARE
from protocol.result import SteadyState

CLOCK_LIMIT_PERCENT: Final = 1.0
"""Change of the SM clock above which a measurement is UNSETTLED. The worker has the same limit for times."""
LIMIT_PERCENT: Final = 2.0
"""Drift of the times above which a cell is UNSETTLED; half 95 % interval above which it is NOISY. Steady cells bound by
an H200 had a standard deviation between launches of up to 1.9 % (margins.yaml)."""
POWER_SETTLES_S: Final = 2.0
"""Least measured seconds with which the times of a cell can show that the clock falls at the power limit."""
SPREAD_LIMIT_PERCENT: Final = 5.0
"""Spread between launches above which a cell is NOISY. On H200s their standard deviation was 0.2 % (median), at most
1.9 %."""


class Quality(enum.StrEnum):
    """Quality of a cell's result in a word.

    WRONG: outputs of the compiled model differ from eager ones beyond the tolerance, so the figures do not count.
    IMPLAUSIBLE: faster than the probes of the device allow, or the model's code changed the clock (plausibility.flags).
    HOST_BOUND: the GPU waits for the host, so the figures do not show the speed of the GPU. UNSETTLED: times or SM
    clock still changed. UNSETTLED_POWER: the GPU was at its power limit, where the clock falls for a minute, and this
    measurement cannot show that fall. NOISY: the 95 % interval or the spread between launches exceeds its limit.
    DEGRADED and the qualities below it are final states (Status) of a cell.
    """

    OK = "ok"
    WRONG = "WRONG"
    CONTAMINATED = "contaminated"
    THROTTLED = "throttled"
    IMPLAUSIBLE = "implausible"
    HOST_BOUND = "host-bound"
    UNSETTLED = "unsettled"
    UNSETTLED_POWER = "unsettled (power)"
    NOISY = "noisy"
    DEGRADED = "degraded"
    REFERRED = "referred"
    DOES_NOT_FIT = "does not fit"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    DROPPED = "dropped"
    MISSING = "missing"

    @property
    def is_doubtful(self) -> bool:
        """Whether the result has a figure that another run may not confirm."""
        return self in _DOUBTFUL

    @property
    def judges_gpu(self) -> bool:
        """Whether the result shows the GPU's own speed. This includes a GPU that was throttled or limited by power."""
        return self in (Quality.OK, Quality.THROTTLED, Quality.UNSETTLED_POWER)


_DOUBTFUL: Final = frozenset(
    {
        *(Quality.CONTAMINATED, Quality.THROTTLED, Quality.IMPLAUSIBLE, Quality.HOST_BOUND),
        *(Quality.UNSETTLED, Quality.UNSETTLED_POWER, Quality.NOISY, Quality.DEGRADED),
    }
)


def is_clock_moved(metric: Measured) -> bool:
    """Whether the SM clock changed by more than CLOCK_LIMIT_PERCENT while the cell was measured; False if unknown."""
    return _exceeds(metric.sm_clock_drift_percent, CLOCK_LIMIT_PERCENT)


def _exceeds(percent: float | None, limit: float) -> bool:
    return percent is not None and abs(percent) > limit


def _is_unsettled(metric: Measured) -> bool:
    return (
        metric.steady_state == SteadyState.NONE
        or _exceeds(metric.drift_percent, LIMIT_PERCENT)
        or is_clock_moved(metric)
    )


def is_power_unsettled(metric: Measured) -> bool:
    """Whether the GPU was at its power limit, and the measured times cannot show a falling clock.

    They cannot if they cover less than POWER_SETTLES_S seconds, if the warm-up had a fixed number of iterations, or if
    it is unknown whether the GPU waited for the host (launch_bound).
    """
    brief = metric.measured_seconds is not None and metric.measured_seconds < POWER_SETTLES_S
    blind = brief or metric.steady_state == SteadyState.FIXED or metric.launch_bound is None
    if metric.power_capped_percent is None:  # a driver without the counter
        return blind and CLOCK_EVENT_REASONS[POWER_CAP] in metric.clock_event_reasons
    return blind and _exceeds(metric.power_capped_percent, 100 * CAPPED_SHARE)


def is_steady(state: str | None, half_width: float | None) -> bool:
    """Whether times had settled when measured; True if unknown. state: how warm-up ended (SteadyState), or None.

    half_width: half of the 95 % interval of the mean iteration time, as a share of this mean (0.02 is 2 %), or None. It
    matters only after a fixed warm-up: times had not settled if it exceeds LIMIT_PERCENT.
    """
    return state != SteadyState.NONE and not (state == SteadyState.FIXED and _is_imprecise(half_width))


def _is_imprecise(half_width: float | None) -> bool:
    return _exceeds(None if half_width is None else half_width * 100, LIMIT_PERCENT)


def _is_noisy(metric: Measured) -> bool:
    loading = metric.steady_state == SteadyState.NOT_SOUGHT  # five loads show no interval worth a warning
    imprecise = not loading and _is_imprecise(metric.relative_half_width)
    return imprecise or _exceeds(metric.launch_spread_percent, SPREAD_LIMIT_PERCENT)


_OF_A_MEASUREMENT: Final[tuple[tuple[Quality, Callable[[Measured], bool | None]], ...]] = (
    (Quality.WRONG, lambda metric: bool(metric.wrong)),
    (Quality.CONTAMINATED, lambda metric: metric.contaminated),
    (Quality.THROTTLED, lambda metric: metric.throttled),
    (Quality.IMPLAUSIBLE, lambda metric: isinstance(metric, Computed) and bool(metric.plausibility.flags)),
    (Quality.HOST_BOUND, lambda metric: metric.launch_bound),
    (Quality.UNSETTLED, _is_unsettled),
    (Quality.UNSETTLED_POWER, is_power_unsettled),
    (Quality.NOISY, _is_noisy),
)


def quality(status: Status, metric: Measured | None) -> Quality:
    """Return the quality of a planned cell: from its status, or from its figures if the status is ok.

    metric: the figures. The quality is OK if the status is ok and there are no figures (None, or no launches).
    """
    if status is not Status.OK:
        return Quality(status.replace("_", " "))
    if metric is None or not metric.launches:
        return Quality.OK
    return next((name for name, applies in _OF_A_MEASUREMENT if applies(metric)), Quality.OK)
