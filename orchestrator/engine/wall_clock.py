"""Detect that the host's clock was set. No deadline depends on it. Pure."""

from typing import Final

JUMP_S: Final = 2.0
"""Least change in seconds that counts as a jump. A clock that NTP adjusts only drifts, by at most 0.5 ms per second."""


class WallClock:
    """Compares the time of day with the monotonic clock, to detect that the time of day was set.

    wall, monotonic: present values of both clocks, in seconds.
    """

    def __init__(self, wall: float, monotonic: float) -> None:
        self._offset = wall - monotonic

    def jumped(self, wall: float, monotonic: float) -> float:
        """Return the seconds by which `wall` jumped since the last call or creation (> 0: forward), 0 below JUMP_S."""
        by = wall - monotonic - self._offset
        self._offset += by
        return by if abs(by) >= JUMP_S else 0.0
