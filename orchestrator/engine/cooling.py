"""How long a GPU rests after it was slowed down, before it is measured again. Pure."""

from dataclasses import dataclass
from typing import Final

from orchestrator.gpu.telemetry import clock_events
from protocol.messages import Sample

COOLER_BY: Final = 10
"""Degrees Celsius below what it reached. A GPU just below its limit is there again within seconds."""
AT_MOST_S: Final = 120.0


@dataclass(frozen=True)
class Rest:
    """A GPU rests until `until`, seconds of the loop's clock, at most.

    since_ns: monotonic; earlier samples do not count. limit_c: None where NVML has no sensor.
    """

    until: float
    since_ns: int
    limit_c: int | None


def rest(hottest_c: int | None, now: float, now_ns: int) -> Rest:
    """A rest that begins now. hottest_c: the highest temperature of the launch that was slowed down."""
    return Rest(until=now + AT_MOST_S, since_ns=now_ns, limit_c=None if hottest_c is None else hottest_c - COOLER_BY)


def over(resting: Rest, newest: Sample | None, now: float) -> bool:
    """Whether the GPU may be used again. newest: its newest sample; without one, only time decides."""
    if now >= resting.until:
        return True
    if newest is None or newest.at_ns < resting.since_ns:
        return False
    if newest.temperature_c is None or resting.limit_c is None:
        return False
    slowed = bool((newest.reasons or 0) & clock_events.SLOWDOWN)
    return not slowed and newest.temperature_c <= resting.limit_c
