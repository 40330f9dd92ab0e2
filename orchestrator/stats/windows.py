"""Rates in windows of ten seconds, from blocks. All GPUs of a host have the same windows. Pure.

    blocks   ├────────┤├────────┤├────────┤   ├────────┤      a block's work is spread evenly over its time
    windows  │    0    │    1    │    2    │    3    │        a window less than half covered is dropped

Window 0 begins at zero of the monotonic clock. It restarts with each boot, so shift the windows of a second boot.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

WINDOW_NS: Final = 10_000_000_000
LEAST_COVERED: Final = 0.5


class Window(msgspec.Struct, frozen=True):
    """Rate of one GPU in the ten seconds of window `number`. Window 0 begins at zero of the monotonic clock.

    key: kind of work, such as "soak gemm bf16". rate: work per second, in any unit, of the time that blocks cover.
    """

    number: int
    key: str
    rate: float


def windows(blocks: Iterable[tuple[int, int, int]], *, work: float, key: str) -> tuple[Window, ...]:
    """Return those windows of one GPU and kind of work of which blocks cover at least half, in order of time.

    blocks: (start_ns, end_ns, iterations) in monotonic time, without overlap. work: work of one iteration, in any unit.
    key: the kind of work. Raises ValueError for a block that ends no later than it starts.
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
