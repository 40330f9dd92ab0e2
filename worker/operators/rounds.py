"""Rounds of calls: numbers of input copies and of calls, and times of single calls. Imports no torch."""

import math
from typing import Final

from worker import timing
from worker.timing import HostClock, Step

ROTATED_BYTES: Final = {"cuda": 2**30, "cpu": 4 * 2**20}
"""Bytes of all inputs of a round. GPU: eight times the largest L2 cache (126 MB), which does not evict the oldest data
first. With five times the cache, a sum was still 18 % faster than from memory [H100]."""
MOST_COPIES: Final = 256
LEAST_COPIES: Final = 2
LEAST_CALLS: Final = 5
_MOST_CALLS: Final = 2000


def copies(input_bytes: int, room_bytes: int, kind: str) -> int:
    """Return how many copies of the inputs to make, which calls use in turn: 1 to MOST_COPIES.

    All copies together have about ROTATED_BYTES[kind], so that no cache holds all of them, but at most a quarter of
    `room_bytes`. kind: "cuda" or "cpu". room_bytes: free memory. input_bytes: bytes of one copy.
    """
    wanted = math.ceil(ROTATED_BYTES[kind] / max(input_bytes, 1))
    return max(1, min(wanted, MOST_COPIES, room_bytes // 4 // max(input_bytes, 1)))


def calls(window_s: float, call_ms: float) -> int:
    """Return the number of calls that last about `window_s` seconds, from 5 to 2000. call_ms: expected time of one."""
    return min(max(timing.iterations_for(window_s * 1e3, call_ms), LEAST_CALLS), _MOST_CALLS)


def single_calls(call: Step, wait: Step, window_s: float) -> tuple[list[float], list[float]]:
    """Time single calls on an idle device: as many as fit in about `window_s` seconds, but 5 to 2000.

    Returns two lists: milliseconds of each call. Both times begin when `call` begins. First list: until `call`
    returned. Second list: until `wait`, which is called next and waits for the device, returned.
    """
    clock = HostClock()
    call()
    wait()
    first = timing.time_block(clock, (call, wait), LEAST_CALLS)
    block = timing.time_block(clock, (call, wait), calls(window_s, first.wall_ms / LEAST_CALLS))
    host, rest = block.spans_ms[::2], block.spans_ms[1::2]
    return host, [before + after for before, after in zip(host, rest, strict=True)]
