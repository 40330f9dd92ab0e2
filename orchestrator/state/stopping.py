"""Turn stop requests and the time limit into orders for the running launches (measurements). Pure.

first request    no new launches; running ones may finish within GENTLE_S and are ended after that
second request   running launches are killed at once
the time limit   running launches are killed at once, and the rest of the plan is dropped
"""

import enum
import math
from typing import Final

from protocol.failure import Category, Failure, Phase

GENTLE_S: Final = 12.0
"""Seconds for launches to finish by themselves after a stop request. With GENTLE_GRACE_S, a stop takes at most 20 s."""
GENTLE_GRACE_S: Final = 4.0
OUT_OF_TIME: Final = "the time limit of the run was reached"
"""Message of a launch that the time limit ended. Such a launch is dropped; a stopped one would be measured again."""


class Order(enum.Enum):
    """What to do because of a stop request or the time limit.

    BEGIN_NOTHING: start no more launches. END_GENTLY: end running launches with SIGTERM, after GENTLE_GRACE_S with
    SIGKILL. KILL: end them with SIGKILL. TIME_IS_UP: end them with SIGKILL, and drop the launches that wait.
    """

    BEGIN_NOTHING = enum.auto()
    END_GENTLY = enum.auto()
    KILL = enum.auto()
    TIME_IS_UP = enum.auto()


class Stopping:
    """Turns stop requests and the time limit into orders, each order once. ends: time limit in monotonic seconds."""

    def __init__(self, ends: float = math.inf) -> None:
        self._heeded = 0
        self._ends = ends
        self._gentle_until = math.inf
        self.over_by = math.inf
        """Monotonic time (s) by which a stop or the time limit has ended all launches; infinity until then."""

    def put_off(self, by_s: float) -> None:
        """Move the time limit (`ends`) `by_s` seconds later."""
        self._ends += by_s

    def heed(self, requests: int, now: float) -> tuple[Order, ...]:
        """Return the new orders after `requests` stop requests in all: BEGIN_NOTHING after one, KILL after two.

        Both if the first call already counts two; () if nothing is new. `time_passed` returns the other orders. now:
        monotonic seconds.
        """
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
        """Return the orders that became due since the last call. now: monotonic seconds.

        END_GENTLY is due GENTLE_S after the first stop request, TIME_IS_UP at the time limit.
        """
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
    """Return "ended by the time limit" for the category and message of `out_of_time`, for others the category."""
    limited = category == Category.STOPPED and message == OUT_OF_TIME
    return "ended by the time limit" if limited else str(category)


def stop_requested() -> Failure:
    """Return the failure of launches that a stop request ends. Its phase is replaced by that of each launch."""
    return Failure(category=Category.STOPPED, message="a stop was requested", phase=Phase.START)


def out_of_time() -> Failure:
    """Return the failure of launches that the time limit ends. Its phase is replaced by that of each launch."""
    return Failure(category=Category.STOPPED, message=OUT_OF_TIME, phase=Phase.START)
