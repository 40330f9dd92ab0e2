"""Decision when to stop measuring: the mean time is precise enough, or the time is used up.

It is precise enough if half of its 95 % confidence interval, divided by the mean (protocol/intervals.py), is at most
the target, `Measurement.relative_half_width`. This is tested each time the number of values has grown by 30 %
(docs/method-reference.md, "When to stop"). A profile with `give_up` also stops early if it expects to miss the target
by far, assuming that the interval shrinks with the square root of the time.
"""

import math
from collections.abc import Sequence
from typing import Final

from protocol.intervals import BATCHES, relative_half_width
from protocol.messages import Measurement
from protocol.result import StopReason

GROWTH: Final = 1.3
LEAST_ITERATIONS: Final = 3
"""Minimum number of iterations, even beyond the time cap, because a single time has no spread."""
FAR: Final = 2.0
"""Measuring gives up if it expects an interval of more than this many times the target at the time cap."""


class Stopper:
    """Decides after each block whether to stop. least: minimum number of iterations before the time cap counts."""

    def __init__(self, measurement: Measurement, least: int = LEAST_ITERATIONS) -> None:
        self._measurement = measurement
        self._least = least
        self._next_look = BATCHES

    def reason(self, times_ms: Sequence[float], iterations: int, elapsed_s: float) -> StopReason | None:
        """Return the reason to stop now; None to continue.

        times_ms: all times so far, in measured order. iterations: number of iterations so far. elapsed_s: seconds since
        the measurement began. If `measurement.iterations` is set, only this number counts (FIXED). Otherwise:

            TARGET        after min_s and 20 values, if the mean is precise enough
            OUT_OF_REACH  after min_s in a profile with give_up, if the interval is expected to be above twice its
                          target at max_s, or fewer than 20 values are expected by then
            TIME_CAP      after max_s and `least` iterations
        """
        limits = self._measurement
        if limits.iterations is not None:
            return StopReason.FIXED if iterations >= limits.iterations else None
        if elapsed_s >= limits.min_s and len(times_ms) >= self._next_look:
            self._next_look = math.ceil(len(times_ms) * GROWTH)
            width = relative_half_width(times_ms)
            if width <= limits.relative_half_width:
                return StopReason.TARGET
            if limits.give_up and width * math.sqrt(elapsed_s / limits.max_s) > FAR * limits.relative_half_width:
                return StopReason.OUT_OF_REACH
        if iterations < self._least:
            return None
        if elapsed_s >= limits.max_s:
            return StopReason.TIME_CAP
        too_few = len(times_ms) * limits.max_s < BATCHES * elapsed_s
        return StopReason.OUT_OF_REACH if limits.give_up and too_few and elapsed_s >= limits.min_s else None
