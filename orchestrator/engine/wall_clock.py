"""Whether the host's clock was set during the run. Pure.

Deadlines and durations are on the monotonic clock. A jump of the time of day (by hand, NTP, sleep) is recorded because
other logs may disagree with the run's.
"""

from typing import Final

JUMP_S: Final = 2.0
"""A slewed clock drifts by at most 0.5 ms per second; anything beyond this was set."""


class WallClock:
    """Compares the time of day with the monotonic clock. Both in seconds, read together."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self._offset = wall - monotonic

    def jumped(self, wall: float, monotonic: float) -> float:
        """Seconds by which the clock was set since the last call, 0.0 where it was not."""
        by = wall - monotonic - self._offset
        self._offset += by
        return by if abs(by) >= JUMP_S else 0.0
