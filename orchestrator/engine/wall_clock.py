"""Whether the host's clock was set while the run went on. Pure.

Every deadline and every duration here is on the monotonic clock, which nobody can set; the time of day only names
moments for people. Where it jumps (set by hand, stepped by NTP, or the machine slept), the journal says so, because
other logs of that time may not agree with the run's.
"""

from typing import Final

JUMP_S: Final = 2.0
"""A clock that is slewed drifts by 0.5 ms in a second at most; whatever is beyond this was set."""


class WallClock:
    """Compares the time of day with the monotonic clock. Both in seconds, read together."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self._offset = wall - monotonic

    def jumped(self, wall: float, monotonic: float) -> float:
        """By how many seconds it was set since the last call; 0.0 where it was not."""
        by = wall - monotonic - self._offset
        self._offset += by
        return by if abs(by) >= JUMP_S else 0.0
