"""What a person's wish to stop, or the end of a time limit, means for the launches that run. Pure.

    first request    nothing new begins; what runs may end by itself for a while, then it is asked to
    second request   what runs is killed at once
    the limit        the same, and what is left of the plan is dropped

The loop asks, the conductor obeys.
"""

import enum
import math
from typing import Final

from protocol.failure import Category, Failure, Phase

GENTLE_S: Final = 12.0
"""A gentle stop lets launches end by themselves for this long; with the grace below it ends within 20 s."""
GENTLE_GRACE_S: Final = 4.0
OUT_OF_TIME: Final = "the time limit of the run was reached"
"""What a launch is told that is ended by the limit: it is dropped, and not measured again as one that was stopped."""


class Order(enum.Enum):
    """What to do now."""

    BEGIN_NOTHING = enum.auto()
    END_GENTLY = enum.auto()
    KILL = enum.auto()
    TIME_IS_UP = enum.auto()


class Stopping:
    """Turns counted requests and the time into orders, each given once. Times are monotonic seconds.

    ends: when the time that the run has for measuring is over, infinity where it has as much as it needs.
    """

    def __init__(self, ends: float = math.inf) -> None:
        self._heeded = 0
        self._ends = ends
        self._gentle_until = math.inf
        self.over_by = math.inf
        """From then on nothing is waited for that need not be."""

    def put_off(self, by_s: float) -> None:
        """The time that the run has is over so much later."""
        self._ends += by_s

    def heed(self, requests: int, now: float) -> tuple[Order, ...]:
        """What `requests` so far ask for that no earlier call has said."""
        orders: list[Order] = []
        if self._heeded < 1 <= requests:
            self._gentle_until = now + GENTLE_S
            self.over_by = now + GENTLE_S + GENTLE_GRACE_S
            orders.append(Order.BEGIN_NOTHING)
        if self._heeded < 2 <= requests:
            self.over_by = now
            orders.append(Order.KILL)
        self._heeded = max(self._heeded, min(requests, 2))
        return tuple(orders)

    def time_passed(self, now: float) -> tuple[Order, ...]:
        """Whether the patience with what runs, or the run's time, is over."""
        orders: list[Order] = []
        if now >= self._gentle_until:
            self._gentle_until = math.inf
            orders.append(Order.END_GENTLY)
        if now >= self._ends:
            self._ends = math.inf
            self.over_by = now
            orders.append(Order.TIME_IS_UP)
        return tuple(orders)


def how_it_ended(category: str, message: str) -> str:
    """The kind of a failure in words: what the time limit ended was not stopped by anybody."""
    limited = category == Category.STOPPED and message == OUT_OF_TIME
    return "ended by the time limit" if limited else str(category)


def asked() -> Failure:
    """What becomes of a launch that is ended because a person asked for that."""
    return Failure(category=Category.STOPPED, message="the run was asked to stop", phase=Phase.START)


def out_of_time() -> Failure:
    """What becomes of a launch that the time limit ends."""
    return Failure(category=Category.STOPPED, message=OUT_OF_TIME, phase=Phase.START)
