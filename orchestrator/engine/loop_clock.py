"""The clock of the loop's deadlines: it stands still while the orchestrator is suspended.

Time limits and stop requests use the monotonic clock instead.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

STILL_S: Final = 2.0
"""Least seconds between two readings of the clock that count as a pause. The loop itself sleeps for 1 s at most."""
SHORT_S: Final = 0.5
"""Least seconds between two readings in which a running launch may have paused, too: the loop then sleeps 0.1 s."""


class Pause(NamedTuple):
    """A time in which the loop did not run, in monotonic nanoseconds. asleep: the whole machine was suspended."""

    begin_ns: int
    end_ns: int
    asleep: bool = False

    @property
    def is_short(self) -> bool:
        """Whether the pause may just be the loop's own sleep or a slow disk. Such a pause extends no deadline."""
        return not self.asleep and self.end_ns - self.begin_ns < STILL_S * 1e9


def _asleep() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


class LoopClock:
    """Clock of the loop's deadlines. It stands still in each gap of STILL_S (2 s) or more between readings of `read`.

    read: returns monotonic seconds. asleep: returns the seconds for which the machine was suspended since it booted.
    pauses: found by `now`, oldest first: gaps of SHORT_S (0.5 s) or more, and suspensions of STILL_S or more.
    """

    def __init__(self, read: Callable[[], float] = time.monotonic, asleep: Callable[[], float] = _asleep) -> None:
        self.pauses: list[Pause] = []
        self._read = read
        self._looked = read()
        self._asleep = asleep
        self._slept = asleep()
        self._paused_s = 0.0
        self._unreported_s = 0.0

    def now(self) -> float:
        """Return the monotonic seconds minus all gaps of STILL_S or more between readings. Note a new pause."""
        at, slept = self._read(), self._asleep()
        if (gap := at - self._looked) >= STILL_S:
            self._paused_s += gap
            self._unreported_s += gap
        if gap >= SHORT_S:
            self.pauses.append(Pause(round(self._looked * 1e9), round(at * 1e9)))
        if slept - self._slept >= STILL_S:
            self.pauses.append(Pause(round(self._looked * 1e9), round(at * 1e9), asleep=True))
        self._looked, self._slept = at, slept
        return at - self._paused_s

    def suspended_s(self) -> float:
        """Return the seconds of gaps of STILL_S or more since the last call, or 0.0. Sleep of the machine is no gap."""
        self.now()
        paused_s, self._unreported_s = self._unreported_s, 0.0
        return paused_s

    def worked(self) -> None:
        """Declare that the loop has been busy, not paused, since the clock was last read."""
        self._looked = self._read()
