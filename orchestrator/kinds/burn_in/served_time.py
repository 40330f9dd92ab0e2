"""Served time: how long a device of a burn-in did what counts towards the requested time. Pure.

    run begins ├─ start ─┤▓▓ launch ▓▓├ gap ┤▓▓ launch ▓▓├──── a long gap ────┤▓▓ launch ▓▓┤  no launch follows
    counted as served: all of ▓▓▓▓, and at most ORDINARY_S of the start and of each gap before a launch,
    but in each session no more seconds of gaps than of ▓▓▓▓, and none while the orchestrator was suspended

A gap takes 1 to 2 s on a GPU, a start up to 20 s. Only the start of the first session counts (state/time_budget.py).
Long gaps between launches without a known reason are reported (idle).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from protocol.failure import Phase

ORDINARY_S: Final = 20.0
"""Most seconds of a gap that count. On a node, import took 12 s, a first context 5 s, later launches 0.5 to 1.3 s."""
SHARE: Final = 0.95
LATE_S: Final = 10.0  # A device must serve SHARE of the requested time, less this and one cell
LONG_S: Final = 60.0  # Longer unexplained gaps are reported: nothing planned takes so long
AT_WORK: Final = frozenset({Phase.WARM_UP, Phase.MEASURE, Phase.FINISH})
"""Phases of a launch in which its device works. Before them it imports and builds."""

Span = tuple[int, int]  # Begin and end in monotonic nanoseconds of one session


@dataclass(frozen=True)
class Load:
    """The work of a device in one session. A Span is (begin, end) in monotonic ns.

    launches: when the device worked. stalls: when a worker was suspended. suspensions: when the orchestrator was
    suspended. since_ns: begin of the session, if the time before the first launch counts as served; else None. cut_off:
    whole launches that ended with the run; only their last part is among `launches`.
    """

    launches: list[Span] = field(default_factory=list)
    stalls: list[Span] = field(default_factory=list)
    suspensions: tuple[Span, ...] = ()
    since_ns: int | None = None
    cut_off: list[Span] = field(default_factory=list)


class Parts(NamedTuple):
    """Served seconds in a session: worked_s in launches, between_s between them, started_s before the first.

    between_s is not yet limited to worked_s (`seconds` limits it).
    """

    worked_s: float
    between_s: float
    started_s: float


def seconds(loads: Iterable[Load]) -> float:
    """Add up the served seconds of all sessions (`loads`). Limits the gaps of each session to its seconds of work."""
    return sum(found.worked_s + min(found.between_s, found.worked_s) + found.started_s for found in map(parts, loads))


def parts(load: Load) -> Parts:
    """Return the served seconds of one session: in launches, between them, before the first."""
    gaps = between(joined(load.launches))
    return Parts(worked_s(load), sum(ordinary_s(gap, load.suspensions) for gap in gaps), started_s(load))


def worked_s(load: Load) -> float:
    """Return the seconds of a session in which the device worked in launches, without stalls."""
    return sum(end - begin for begin, end in without(load.launches, load.stalls)) / 1e9


def started_s(load: Load) -> float:
    """Return the served seconds from the begin of a session to its first launch. load: of the session.

    At most ORDINARY_S, and at most the session's `worked_s`. 0 if this time does not count (load.since_ns is None), or
    if the session has no launch.
    """
    if load.since_ns is None or not load.launches:
        return 0.0
    first_ns, _ = min(load.launches)
    return min(ordinary_s((load.since_ns, first_ns), load.suspensions), worked_s(load))


def ordinary_s(gap: Span, suspensions: Iterable[Span]) -> float:
    """Return the seconds of a gap that count as served: those outside `suspensions`, but at most ORDINARY_S."""
    return min(sum(end - begin for begin, end in without((gap,), suspensions)) / 1e9, ORDINARY_S)


def is_short(served_s: float, requested_s: float, cell_s: float) -> bool:
    """Whether a device served less than SHARE * requested_s - LATE_S - cell_s. cell_s: length of its longest cell."""
    return served_s < SHARE * requested_s - LATE_S - cell_s


def without(work: Iterable[Span], stalls: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of `work` that are not in `stalls`, in order. The given spans may overlap and have any order."""
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
    """Yield (begin in ns, unexplained seconds) of each gap in `work` with more than LONG_S unexplained seconds.

    explained: times in which a gap has a reason. The spans of each argument may overlap and have any order.
    """
    explained_spans = joined(explained)
    for begin, end in between(joined(work)):
        if (unexplained_s := (end - begin - overlap_ns((begin, end), explained_spans)) / 1e9) > LONG_S:
            yield begin, unexplained_s


def overlap_ns(span: Span, others: Iterable[Span]) -> int:
    """Return how many nanoseconds of a span lie in `others`, which do not overlap each other."""
    begin, end = span
    return sum(max(min(end, late) - max(begin, early), 0) for early, late in others)


def joined(spans: Iterable[Span]) -> Sequence[Span]:
    """Return the spans in order of time. Spans that overlap or touch are merged."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def between(spans: Sequence[Span]) -> Iterator[Span]:
    """Yield the gaps (end of a span, begin of the next). spans: in order, without overlap, as from `joined`."""
    return ((end, later) for (_, end), (later, _) in pairwise(spans))
