"""End of measuring: the mean is known well enough, or the time is used up.

The interval is evaluated after every further 30 % of data (docs/method.md, "When to stop"). A profile with `give_up`
also ends where the target is out of reach: intervals shrink with the root of the time.
"""

import math
from collections.abc import Sequence
from typing import Final

from protocol.intervals import BATCHES, relative_half_width
from protocol.messages import Measurement
from protocol.result import StopReason

GROWTH: Final = 1.3
LEAST_ITERATIONS: Final = 3
"""Even beyond the time cap: a single time says nothing about how much times differ."""
FAR: Final = 2.0
"""Multiple of the target that an interval must still be at the cap to be given up."""


class Stopper:
    """Decides after each block whether to continue. One for each measured cell."""

    def __init__(self, measurement: Measurement, least: int = LEAST_ITERATIONS) -> None:
        self._measurement = measurement
        self._least = least
        self._next_look = BATCHES

    def reason(self, times_ms: Sequence[float], iterations: int, elapsed_s: float) -> StopReason | None:
        """Why to stop now, None to continue. times_ms: all values so far, in order, of `iterations` iterations.

        A fixed number ignores times and target. Otherwise the target counts from `min_s` and 20 values on, the cap from
        `least` iterations on, giving up from `min_s` on.
        """
        asked = self._measurement
        if asked.iterations is not None:
            return StopReason.FIXED if iterations >= asked.iterations else None
        if elapsed_s >= asked.min_s and len(times_ms) >= self._next_look:
            self._next_look = math.ceil(len(times_ms) * GROWTH)
            width = relative_half_width(times_ms)
            if width <= asked.relative_half_width:
                return StopReason.TARGET
            if asked.give_up and width * math.sqrt(elapsed_s / asked.max_s) > FAR * asked.relative_half_width:
                return StopReason.OUT_OF_REACH
        if iterations < self._least:
            return None
        if elapsed_s >= asked.max_s:
            return StopReason.TIME_CAP
        too_few = len(times_ms) * asked.max_s < BATCHES * elapsed_s
        return StopReason.OUT_OF_REACH if asked.give_up and too_few and elapsed_s >= asked.min_s else None
