"""The clock that the loop is patient by: it stands still while the orchestrator does. Pure but for reading the time.

A process that is stopped (SIGSTOP), or whose machine is paused, sees nothing of what happens meanwhile: a deadline that
passes then says nothing about whoever was to keep it. So that time is left out, and whatever is waited for has as much
time left as before. How long the run may take (a time limit, a person's wish to stop) is not asked of this clock: that
goes by the monotonic clock, which goes on.
"""

import time
from collections.abc import Callable
from typing import Final

STILL_S: Final = 2.0
"""The loop asks for the time several times in each pass, and sleeps for 1 s at most: asked so late, it stood still."""


class LoopClock:
    """Seconds in which the loop looked at what happens. read: the monotonic clock."""

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._looked = read()
        self._left_out = 0.0
        self._untold = 0.0

    def now(self) -> float:
        """The time, which goes by the monotonic clock but for what was left out."""
        at = self._read()
        if (gap := at - self._looked) >= STILL_S:
            self._left_out += gap
            self._untold += gap
        self._looked = at
        return at - self._left_out

    def stood_still(self) -> float:
        """For how many seconds nobody looked, since this was asked last; 0.0 where somebody always did."""
        self.now()
        told, self._untold = self._untold, 0.0
        return told

    def worked(self) -> None:
        """What was done since the last look was long and is no standing still: its time counts like any other."""
        self._looked = self._read()
