"""Rates in windows of ten seconds, on one grid for all GPUs of a host, from blocks. Pure.

    blocks   ├────────┤├────────┤├────────┤   ├────────┤      a block's work is spread evenly over its time
    windows  │    0    │    1    │    2    │    3    │        a window less than half covered is dropped

The grid lies on the monotonic clock, which restarts with each boot: shift the windows of a second boot.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

WINDOW_NS: Final = 10_000_000_000
LEAST_COVERED: Final = 0.5


class Window(msgspec.Struct, frozen=True):
    """Rate of one GPU in ten seconds (a window) of the monotonic clock. number: index of the window, 0 at clock zero.

    key: kind of work. rate: work per second of run time.
    """

    number: int
    key: str
    rate: float


def windows(blocks: Iterable[tuple[int, int, int]], *, work: float, key: str) -> tuple[Window, ...]:
    """Return the windows of one GPU and kind of work, in order.

    blocks: (start_ns, end_ns, iterations), without overlap. work: of one iteration, in any unit. A rate is work over
    the covered time. Raises ValueError for a block that ends no later than it starts.
    """
    covered: dict[int, int] = defaultdict(int)
    done: dict[int, float] = defaultdict(float)
    for start_ns, end_ns, iterations in blocks:
        if end_ns <= start_ns:
            raise ValueError(f"a block of {key} ends at {end_ns} ns, no later than it starts ({start_ns} ns)")
        for number in range(start_ns // WINDOW_NS, (end_ns - 1) // WINDOW_NS + 1):
            inside = min(end_ns, (number + 1) * WINDOW_NS) - max(start_ns, number * WINDOW_NS)
            covered[number] += inside
            done[number] += iterations * work * inside / (end_ns - start_ns)
    return tuple(
        Window(number=number, key=key, rate=done[number] / (covered[number] / 1e9))
        for number in sorted(covered)
        if covered[number] >= LEAST_COVERED * WINDOW_NS
    )
