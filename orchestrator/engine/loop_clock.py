"""The clock of the loop's deadlines: it stands still while the orchestrator is suspended.

Time limits and requests to stop use the monotonic clock instead.
"""

import time
from collections.abc import Callable
from typing import Final

STILL_S: Final = 2.0
"""The loop reads the time several times per pass and sleeps for 1 s at most: a longer gap is a pause."""


class LoopClock:
    """Seconds in which the loop was at work. read: the monotonic clock."""

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._looked = read()
        self._left_out = 0.0
        self._untold = 0.0

    def now(self) -> float:
        """The monotonic time less all pauses."""
        at = self._read()
        if (gap := at - self._looked) >= STILL_S:
            self._left_out += gap
            self._untold += gap
        self._looked = at
        return at - self._left_out

    def stood_still(self) -> float:
        """Seconds of pauses since the last call, 0.0 without any."""
        self.now()
        told, self._untold = self._untold, 0.0
        return told

    def worked(self) -> None:
        """Count the time since the last look as work: it was long, but no pause."""
        self._looked = self._read()
