"""Times at which a worker was suspended while it measured, found in its own blocks. Pure.

    block │▓▓▓▓▓▓▓▓▓▓│  │▓▓▓▓▓│ one iteration of 20 s │▓▓▓│  nothing for 12 s  │▓▓▓▓▓▓▓▓▓▓│
                               └──────── stall ───────┘     └───── stall ─────┘

SIGSTOP or a frozen host leave no other trace in a result.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from protocol.result import Block, Result

LEAST_NS: Final = 5_000_000_000
"""Least length of a stall. In a burn-in, a block lasts 0.25 s, and a pause between two load steps 1 s."""
TIMES: Final = 10
"""A stalled iteration takes over TIMES times as long as the fastest. Memory test steps differ by a factor of 8."""

Span = tuple[int, int]
"""A period: (start, end) in monotonic nanoseconds."""


def stalls(result: Result) -> tuple[Span, ...]:
    """Return the stalls of one launch in order of time, as (start, end) in monotonic nanoseconds.

    A stall is a gap of more than LEAST_NS between two blocks, or an iteration that takes more than LEAST_NS and more
    than TIMES times as long as the fastest one.
    """
    found = [
        (before.end_ns, after.start_ns)
        for before, after in pairwise(result.blocks)
        if after.start_ns - before.end_ns > LEAST_NS
    ]
    times_ms = result.times_ms("iteration")
    second_ms = result.warm_up.second_iteration_ms
    quickest_ms = min([*times_ms, *([second_ms] if second_ms else [])], default=0.0)
    longest_ns = max(LEAST_NS, TIMES * quickest_ms * 1e6 * result.group)
    at = 0
    for block in result.blocks:
        spans = block.iterations // result.group
        if block.end_ns - block.start_ns > longest_ns:  # nearly every block is shorter: a burn-in has millions of times
            found += _within(block, [time_ms * 1e6 * result.group for time_ms in times_ms[at : at + spans]], longest_ns)
        at += spans
    return tuple(sorted(found))


def inside(block: Block, stalls_of_launch: Iterable[Span]) -> int:
    """Return how many nanoseconds of a block lie in stalls, which must not overlap."""
    return sum(max(min(end, block.end_ns) - max(begin, block.start_ns), 0) for begin, end in stalls_of_launch)


def _within(block: Block, lasted_ns: Sequence[float], longest_ns: float) -> Iterator[Span]:
    begin = float(block.start_ns)
    for span_ns in lasted_ns:
        if span_ns > longest_ns:
            yield round(begin), min(round(begin + span_ns), block.end_ns)
        begin = min(begin + span_ns, block.end_ns)
    if block.end_ns - begin > longest_ns:
        yield round(begin), block.end_ns
