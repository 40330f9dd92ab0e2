"""When each device was at work in a burn-in: from the launches of its segments to the time that was served. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from orchestrator.burn_in import served
from orchestrator.burn_in.served import Span
from orchestrator.burn_in.verdict import Idle
from orchestrator.disk.archive import Attempt
from orchestrator.disk.evidence import LaunchEvidence
from orchestrator.disk.records import Segment
from orchestrator.merge.times import iso
from orchestrator.merge.waits import over_ns

Work = Mapping[Segment, Sequence[Span]]
"""From when to when a device was at work, by segment."""


def work(good: Iterable[tuple[Attempt, LaunchEvidence]], cut_off: Iterable[Attempt]) -> Work:
    """That of a device. good: its launches with a result, from the first measured block to the last.

    cut_off: those that ended with the run, and did not hang. They prove nothing, but until then it was at work.
    """
    found: dict[Segment, list[Span]] = defaultdict(list)
    for attempt, evidence in good:
        if evidence.worked_ns is not None:  # believed within what the journal says of the launch
            begin_ns, end_ns = (min(max(at_ns, attempt.start.at_ns), over_ns(attempt)) for at_ns in evidence.worked_ns)
            found[attempt.segment].append((begin_ns, end_ns))
    for attempt in cut_off:
        found[attempt.segment].append((attempt.start.at_ns, over_ns(attempt)))
    return found


def served_s(work: Work) -> float:
    """Seconds that a device was at work, interruptions left out."""
    return served.seconds((segment.monotonic_ns, spans) for segment, spans in work.items())


def idle(work: Work, waits: Mapping[Segment, Sequence[Span]]) -> Iterator[Idle]:
    """When a device was idle for long. waits: when it may have waited for a device, itself or another (waits.py)."""
    for segment, spans in work.items():
        for begin_ns, seconds in served.idle(spans, waits.get(segment, ())):
            yield Idle(iso(segment.at(begin_ns)), seconds)
