"""For how long a device was at work, and when it was not though nothing tells why. Pure.

    segment begins ├─ start ─┤▓▓ launch ▓▓├ gap ┤▓▓ launch ▓▓├──── a long gap ────┤▓▓ launch ▓▓┤  what follows: nothing
                     counted as served:    ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ and of each gap at most ORDINARY_S

Between two launches a device is idle for a while: a process is made, imports, allocates, and on several devices waits
for the others. On a GPU that takes 1 to 2 s, at the start up to 20 s. What is longer was not served. Starts count for
no more than the work that came of them, so that a run which is started and ended again and again has served little.
In a launch nothing is waited for: of a worker that stood still (stats/stalls.py) nothing counts for so long.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from orchestrator.disk.records import End, Record, Segment, Start, TakenOut
from protocol.failure import Phase

ORDINARY_S: Final = 20.0
"""Of a gap, what counts as served: the import on a node took 12 s, a first context 5 s, a launch later 0.5 to 1.3 s."""
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
        if spans := _joined(launches):
            worked_s += sum(end - start for start, end in without(spans, stalls)) / 1e9
            started_s += min((spans[0][0] - begin_ns) / 1e9, ORDINARY_S)
            between_s += sum(min((later - end) / 1e9, ORDINARY_S) for end, later in _between(spans))
    return worked_s + between_s + min(started_s, worked_s)


def without(work: Iterable[Span], stalls: Iterable[Span]) -> Iterator[Span]:
    """What of the work is left when this is taken out of it."""
    still = _joined(stalls)
    for begin, end in _joined(work):
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
    known = _joined(explained)
    for begin, end in _between(_joined(work)):
        told_ns = sum(max(min(end, late) - max(begin, early), 0) for early, late in known)
        if (untold_s := (end - begin - told_ns) / 1e9) > LONG_S:
            yield begin, untold_s


def before(records: Iterable[Record], devices: Mapping[str, Collection[str]]) -> float:
    """Seconds that a burn-in has served before its newest segment, by its journal; launches from start to end.

    Not those that ended before they were at work. Each device is judged by its own time, so that the one with the least
    counts: one that was taken out is not waited for, or the others would do their night twice. devices: of each cell.
    """
    segments: list[tuple[int, dict[str, list[Span]]]] = []
    started: dict[int, Start] = {}
    out: set[str] = set()
    for record in records:
        match record:
            case Segment():
                segments.append((record.monotonic_ns, defaultdict(list)))
                started = {}
            case TakenOut():
                out.add(record.device)
            case Start():
                started[record.launch] = record
            case End() if record.launch in started:  # else an earlier segment's, whose clock may be another one
                begun = started.pop(record.launch)
                if record.failure is None or record.failure.phase in AT_WORK:
                    for uuid in devices[begun.cell]:
                        segments[-1][1][uuid].append((begun.at_ns, record.at_ns))
    everyone = {uuid for own in devices.values() for uuid in own}
    return min(
        seconds((begin_ns, launches.get(uuid, ()), ()) for begin_ns, launches in segments[:-1])
        for uuid in everyone - out or everyone
    )


def _joined(spans: Iterable[Span]) -> Sequence[Span]:
    """In order, those that overlap as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _between(spans: Sequence[Span]) -> Iterator[Span]:
    return ((end, later) for (_, end), (later, _) in pairwise(spans))
