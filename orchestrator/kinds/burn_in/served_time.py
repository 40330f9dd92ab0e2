"""For how long a device was at work, and when it was not though nothing tells why. Pure.

    the run begins ├─ start ─┤▓▓ launch ▓▓├ gap ┤▓▓ launch ▓▓├──── a long gap ────┤▓▓ launch ▓▓┤  what follows: nothing
                     counted as served:    ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ and of each gap at most ORDINARY_S
                     but of its gaps       no more than of its ▓▓▓▓, and nothing while the orchestrator stood still

Between two launches a device is idle for a while: a process is made, imports, allocates, and on several devices waits
for the others. On a GPU that takes 1 to 2 s, at the start up to 20 s. What is longer was not served. And whatever was
idle, the device was at work for half of what lies between its launches and in them, or it was not at work for so long:
in each segment by itself, for what is done in a later one is no credit for hours that were idle.
The start counts of the first segment alone, for no more than the work that came of it: one that is gone on with has its
time from when everything is imported (state/time_budget.py), so that a start would count for what it did not cost.
In a launch nothing is waited for: of a worker that stood still (stats/stalls.py) nothing counts for so long.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from protocol.failure import Phase

ORDINARY_S: Final = 20.0
"""Of a gap, what counts as served: the import on a node took 12 s, a first context 5 s, a launch later 0.5 to 1.3 s."""
SHARE: Final = 0.95
LATE_S: Final = 10.0
"""Of the time that was asked for, which a device must have served, but for what is kept for the end and the reports,
and for a last launch that there was no time for any more."""
LONG_S: Final = 60.0
"""A gap that is longer, and which nothing explains, is named: nothing that was planned takes so long."""
AT_WORK: Final = frozenset({Phase.WARM_UP, Phase.MEASURE, Phase.FINISH})
"""Phases of a launch in which its device works. Before them it imports and builds: a start, of which nothing came."""

Span = tuple[int, int]
"""From when to when, in monotonic nanoseconds of one segment."""


@dataclass(frozen=True)
class Load:
    """What a device did in one segment of a run: its launches, and when these stood still.

    halts: when the orchestrator did. since_ns: from when on its start counts; None where it does not. cut_off: launches
    that ended with the run, of which no more than their ends is among the others.
    """

    launches: list[Span] = field(default_factory=list)
    stalls: list[Span] = field(default_factory=list)
    halts: tuple[Span, ...] = ()
    since_ns: int | None = None
    cut_off: list[Span] = field(default_factory=list)


class Parts(NamedTuple):
    """Seconds of a device in a segment: at work in its launches, ordinary ones between them, and before the first."""

    worked_s: float
    between_s: float
    started_s: float


def seconds(loads: Iterable[Load]) -> float:
    """Those that were served in the segments of a run: by the verdict, and by what `resume` is to make up for."""
    return sum(found.worked_s + min(found.between_s, found.worked_s) + found.started_s for found in map(parts, loads))


def parts(load: Load) -> Parts:
    """Of what the seconds that were served are made. Those between launches count for no more than those in them."""
    gaps = between(joined(load.launches))
    return Parts(worked_s(load), sum(ordinary_s(gap, load.halts) for gap in gaps), started_s(load))


def worked_s(load: Load) -> float:
    """Seconds that a device was at work in its launches, in one segment."""
    return sum(end - begin for begin, end in without(load.launches, load.stalls)) / 1e9


def started_s(load: Load) -> float:
    """What counts of the time before the first launch of a segment, if anything: no more than the work that came."""
    if load.since_ns is None or not load.launches:
        return 0.0
    first_ns, _ = min(load.launches)
    return min(ordinary_s((load.since_ns, first_ns), load.halts), worked_s(load))


def ordinary_s(gap: Span, halts: Iterable[Span]) -> float:
    """What of a gap may count: nothing while the orchestrator stood still, which made no launch then."""
    return min(sum(end - begin for begin, end in without((gap,), halts)) / 1e9, ORDINARY_S)


def is_short(served_s: float, asked_s: float, cell_s: float) -> bool:
    """Whether so much is too little of the time that was asked for, with launches of such a length."""
    return served_s < SHARE * asked_s - LATE_S - cell_s


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
        if (untold_s := (end - begin - overlap_ns((begin, end), known)) / 1e9) > LONG_S:
            yield begin, untold_s


def overlap_ns(span: Span, others: Iterable[Span]) -> int:
    """Nanoseconds of a span that lie in others, none of which is over another."""
    begin, end = span
    return sum(max(min(end, late) - max(begin, early), 0) for early, late in others)


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
