"""Where the time went that a device of a burn-in was not at work: since when, for how long, and why. Pure.

    segment begins ├─ a long start ─┤▓▓ launch ▓▓├─ a long gap ─┤▓▓ a worker stood still ▓▓├─ nothing more ─┤ it ends

What is ordinary (burn_in/served.py) counts as served, and is not told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.burn_in import served
from orchestrator.burn_in.served import ORDINARY_S, Span
from orchestrator.burn_in.verdict import named
from orchestrator.disk.archive import Archive, Attempt
from orchestrator.disk.records import Segment
from orchestrator.merge.loads import Load, Work
from orchestrator.merge.lost_launches import Lost
from orchestrator.merge.times import iso
from orchestrator.merge.waits import over_ns
from protocol.cell import Cell


@dataclass(frozen=True)
class Missing:
    """Time without work: since when, in seconds since the epoch, how many seconds that do not count, and why."""

    at: float
    seconds: float
    why: str


def words(
    archive: Archive,
    work: Work,
    stood_still: Iterable[tuple[Attempt, Cell, Sequence[Span]]],
    lost: Sequence[Lost],
    waits: Mapping[Segment, Sequence[Span]],
) -> str:
    """The longest of a device, and how many there are; empty where all its gaps were ordinary ones.

    stood_still: its launches in which a worker did. lost: its launches that failed. waits: when it may have waited for
    another device, by segment.
    """
    found = [
        Missing(attempt.segment.at(begin_ns), (end_ns - begin_ns) / 1e9, f"a worker stood still in {named(cell)}")
        for attempt, cell, stalls in stood_still
        for begin_ns, end_ns in stalls
    ]
    for segment, lasted_s in zip(archive.segments, archive.durations_s, strict=True):
        failed = [one for one in lost if one.attempt.segment == segment]
        found += _gaps(segment, lasted_s, work.get(segment, Load()), failed, waits.get(segment, ()))
    if not found:
        return ""
    longest, first = max(found, key=lambda one: one.seconds), min(found, key=lambda one: one.at)
    others = f", the longest of {len(found)} times, the first of them {iso(first.at)}" if len(found) > 1 else ""
    return f"{longest.why}, {longest.seconds:.0f} s from {iso(longest.at)} on{others}"


def _gaps(
    segment: Segment, lasted_s: float, load: Load, failed: Sequence[Lost], waits: Sequence[Span]
) -> Iterator[Missing]:
    """Those of a segment, with what of them is not ordinary."""
    begin_ns, end_ns = segment.monotonic_ns, segment.monotonic_ns + round(lasted_s * 1e9)
    spans = served.joined(load.launches)
    if not spans:
        if lasted_s:
            yield Missing(segment.at(begin_ns), lasted_s, "it was ended before any launch was at work")
        return
    edges = [(begin_ns, begin_ns), *spans, (end_ns, end_ns)]
    for place, (since_ns, until_ns) in enumerate(served.between(edges)):
        if (seconds := (until_ns - since_ns) / 1e9 - ORDINARY_S) > 0:
            ordinary = {0: "the first launch began late", len(spans): "nothing more was launched"}
            why = _why((since_ns, until_ns), failed, waits) or ordinary.get(place, "nothing was launched")
            yield Missing(segment.at(since_ns), seconds, why)


def _why(gap: Span, failed: Sequence[Lost], waits: Sequence[Span]) -> str:
    """What the journal says of a gap; empty for nothing."""
    for attempt, cell, failure in failed:
        if attempt.start.at_ns < gap[1] and over_ns(attempt) > gap[0]:
            return f"a launch of {named(cell)} failed: {failure.category}"
    if any(begin_ns < gap[1] and end_ns > gap[0] for begin_ns, end_ns in waits):
        return "it waited for another device, or for who else used it"
    return ""
