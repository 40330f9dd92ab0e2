"""Decision when to stop measuring: the mean is precise enough, or the time is used up.

The mean's confidence interval (protocol/intervals.py) is compared with the target each time the data have grown by 30 %
(docs/method-reference.md, "When to stop"). A profile with `give_up` also stops when the target is out of reach, as
intervals shrink with the square root of the time.
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
"""Multiple of the target. Measuring gives up if it expects a wider interval at the time cap."""


class Stopper:
    """Decides after each block whether to stop measuring. least: minimum number of iterations."""

    def __init__(self, measurement: Measurement, least: int = LEAST_ITERATIONS) -> None:
        self._measurement = measurement
        self._least = least
        self._next_look = BATCHES

    def reason(self, times_ms: Sequence[float], iterations: int, elapsed_s: float) -> StopReason | None:
        """Return the reason to stop now; None to continue.

        times_ms: all values so far, in order, of `iterations` iterations. elapsed_s: since the measurement began. A
        fixed number of iterations overrides all else. Otherwise measuring stops at the target after `min_s` and 20
        values, at the cap after `least` iterations, or gives up after `min_s`.
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
