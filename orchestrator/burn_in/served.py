"""For how long a device was at work, and when it was not though nothing tells why. Pure.

    segment begins ├─ start ─┤▓▓ launch ▓▓├ gap ┤▓▓ launch ▓▓├──── a long gap ────┤▓▓ launch ▓▓┤  what follows: nothing
                     counted as served:    ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ and of each gap at most ORDINARY_S

Between two launches a device is idle for a while: a process is made, imports, allocates, and on several devices waits
for the others. On a GPU that takes 1 to 2 s, at the start up to 20 s. What is longer was not served. Starts count for
no more than the work that came of them, so that a run which is started and ended again and again has served little.
In a launch nothing is waited for: of a worker that stood still (stats/stalls.py) nothing counts for so long.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from protocol.failure import Phase

ORDINARY_S: Final = 20.0
"""Of a gap, what counts as served: the import on a node took 12 s, a first context 5 s, a launch later 0.5 to 1.3 s."""
SHARE: Final = 0.95
CLOSING_S: Final = 10.0
"""Of the time that was asked for, which a device must have served, but for what is kept for the end and the reports,
and for a last launch that there was no time for any more."""
LONG_S: Final = 60.0
"""A gap that is longer, and which nothing explains, is named: nothing that was planned takes so long."""
AT_WORK: Final = frozenset({Phase.WARM_UP, Phase.MEASURE, Phase.FINISH})
"""Phases of a launch in which its device works. Before them it imports and builds: a start, of which nothing came."""

Span = tuple[int, int]
"""From when to when, in monotonic nanoseconds of one segment."""


def seconds(segments: Iterable[tuple[int, Iterable[Span], Iterable[Span]]]) -> float:
    """Those that were served in segments, of each its beginning, its launches and when these stood still: the rest of
    the launches, and of gaps between them what is ordinary.
    """
    worked_s = started_s = between_s = 0.0
    for begin_ns, launches, stalls in segments:
        if spans := joined(launches):
            worked_s += sum(end - start for start, end in without(spans, stalls)) / 1e9
            started_s += min((spans[0][0] - begin_ns) / 1e9, ORDINARY_S)
            between_s += sum(min((later - end) / 1e9, ORDINARY_S) for end, later in between(spans))
    return worked_s + between_s + min(started_s, worked_s)


def is_short(served_s: float, asked_s: float, cell_s: float) -> bool:
    """Whether so much is too little of the time that was asked for, with launches of such a length."""
    return served_s < SHARE * asked_s - CLOSING_S - cell_s


def without(work: Iterable[Span], stalls: Iterable[Span]) -> Iterator[Span]:
    """What of the work is left when this is taken out of it."""
    still = joined(stalls)
    for begin, end in joined(work):
        at = begin
        for stopped, went_on in still:
            if at < stopped < end:
                yield at, stopped
            if stopped < end and went_on > at:
                at = max(at, went_on)
        if at < end:
            yield at, end


def idle(work: Iterable[Span], explained: Iterable[Span]) -> Iterator[tuple[int, float]]:
    """Long gaps in the work of a segment: since when, and how many seconds of it nothing explains.

    explained: when this device, or another one for which it waited, is known not to have been ready.
    """
    known = joined(explained)
    for begin, end in between(joined(work)):
        told_ns = sum(max(min(end, late) - max(begin, early), 0) for early, late in known)
        if (untold_s := (end - begin - told_ns) / 1e9) > LONG_S:
            yield begin, untold_s


def joined(spans: Iterable[Span]) -> Sequence[Span]:
    """In order, those that overlap as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def between(spans: Sequence[Span]) -> Iterator[Span]:
    """What lies between those that are joined."""
    return ((end, later) for (_, end), (later, _) in pairwise(spans))
