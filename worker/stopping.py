"""End of measuring: the mean is known well enough, or the time is used up.

The mean's confidence interval (protocol/intervals.py) is compared with the target after each further 30 % of data
(docs/method-reference.md, "When to stop"). A profile with `give_up` also ends when the target is out of reach:
intervals shrink with the root of the time.
"""

import math
from collections.abc import Sequence
from typing import Final

from protocol.intervals import BATCHES, relative_half_width
from protocol.messages import Measurement
from protocol.result import StopReason

GROWTH: Final = 1.3
LEAST_ITERATIONS: Final = 3
"""Minimum number of iterations, even beyond the time cap: a single time has no spread."""
FAR: Final = 2.0
"""Multiple of the target. If the interval is expected to be wider than that at the time cap, measuring gives up."""


class Stopper:
    """Decides after each block whether to go on measuring a cell. least: minimum number of iterations."""

    def __init__(self, measurement: Measurement, least: int = LEAST_ITERATIONS) -> None:
        self._measurement = measurement
        self._least = least
        self._next_look = BATCHES

    def reason(self, times_ms: Sequence[float], iterations: int, elapsed_s: float) -> StopReason | None:
        """Return the reason to stop now; None to continue.

        times_ms: all values so far, in order, of `iterations` iterations. elapsed_s: since the measurement began. With
        a fixed number of iterations, only that number counts. Otherwise the target applies after `min_s` and 20 values,
        the cap after `least` iterations, giving up after `min_s`.
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
