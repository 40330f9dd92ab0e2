"""When measuring is over: the mean is known well enough, or the time is used up.

No clock in here: the loop tells how much was measured and how long it took. Looking at the interval after every block
and stopping at the first that is narrow enough would make it too narrow too often, so it is looked at only after every
further 30 % of data (docs/method.md, "When to stop").
"""

import math
from collections.abc import Sequence
from typing import Final

from protocol.intervals import BATCHES, relative_half_width
from protocol.messages import Measurement
from protocol.result import StopReason

GROWTH: Final = 1.3
LEAST_ITERATIONS: Final = 3
"""Even when one takes longer than the time cap: a single time says nothing about how much times differ."""


class Stopper:
    """Decides after each block whether to go on. One for each cell that is measured."""

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement
        self._next_look = BATCHES

    def reason(self, times_ms: Sequence[float], iterations: int, elapsed_s: float) -> StopReason | None:
        """Why to stop now, None to go on.

        times_ms: every value measured so far, in order; iterations: how many iterations these cover;
        elapsed_s: time since the first of them began.
        A fixed number of iterations ignores times and target. Otherwise the target counts from `min_s` and 20 values
        on, and the time cap from LEAST_ITERATIONS on.
        """
        asked = self._measurement
        if asked.iterations is not None:
            return StopReason.FIXED if iterations >= asked.iterations else None
        if elapsed_s >= asked.min_s and len(times_ms) >= self._next_look:
            self._next_look = math.ceil(len(times_ms) * GROWTH)
            if relative_half_width(times_ms) <= asked.relative_half_width:
                return StopReason.TARGET
        if elapsed_s >= asked.max_s and iterations >= LEAST_ITERATIONS:
            return StopReason.TIME_CAP
        return None
