"""Find the longest time of a burn-in that does not count towards the requested time, and explain it. Pure.

Examples of such lost time: a launch began late, a worker was suspended, no launch followed. Of a launch that the end of
the run cut off, only the length of a cell counts. Short gaps between launches are not lost: they count as served time
(served_time.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.kinds.burn_in import served_time
from orchestrator.kinds.burn_in.busy_time import Work
from orchestrator.kinds.burn_in.findings import cell_name
from orchestrator.kinds.burn_in.gpu_waits import over_ns
from orchestrator.kinds.burn_in.lost_launches import Lost
from orchestrator.kinds.burn_in.served_time import Load, Span
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.store.journal_records import Segment
from orchestrator.system.calendar_times import iso
from protocol.cell import Cell

_REPORTED_S: Final = 1.0  # Shorter losses are not reported
_CUT_OFF: Final = "a launch was cut off, which counts only for the length of a cell"


@dataclass(frozen=True)
class Missing:
    """A lost time. at: its start in seconds since the epoch. why: the reason, as text."""

    at: float
    seconds: float
    why: str


def describe(
    archive: Archive,
    work: Work,
    stalled: Iterable[tuple[Attempt, Cell, Sequence[Span]]],
    lost: Sequence[Lost],
    waits: Mapping[Segment, Sequence[Span]],
) -> str:
    """Return reason, length and start of the longest lost time: "no launch followed, 340 s from <time>".

    With several lost times, the text ends with their number and the start of the first. "" if no time was lost. All
    arguments are about one device, with times in monotonic ns. work: session → its work (served_time.Load). stalled:
    (launch, cell, times) of launches whose worker was suspended. lost: launches without a result. waits: session →
    times in which the device may have waited for another device, or for other processes on it.
    """
    losses = [
        Missing(attempt.segment.at(begin_ns), (end_ns - begin_ns) / 1e9, f"a worker was paused in {cell_name(cell)}")
        for attempt, cell, stalls in stalled
        for begin_ns, end_ns in stalls
    ]
    for segment, lasted_s in zip(archive.segments, archive.durations_s, strict=True):
        failed = [loss for loss in lost if loss.attempt.segment == segment]
        losses += _gaps(segment, lasted_s, work.get(segment, Load()), failed, waits.get(segment, ()))
    losses += _mostly_gaps(work)
    if not losses:
        return ""
    longest, first = max(losses, key=lambda loss: loss.seconds), min(losses, key=lambda loss: loss.at)
    others = f" (the longest of {len(losses)} losses, the first at {iso(first.at)})" if len(losses) > 1 else ""
    return f"{longest.why}, {longest.seconds:.0f} s from {iso(longest.at)}{others}"


def _gaps(
    segment: Segment, lasted_s: float, load: Load, failed: Sequence[Lost], waits: Sequence[Span]
) -> Iterator[Missing]:
    begin_ns, end_ns = segment.monotonic_ns, segment.monotonic_ns + round(lasted_s * 1e9)
    spans = served_time.joined(load.launches)
    if not spans:
        if lasted_s:
            yield Missing(segment.at(begin_ns), lasted_s, "the session ended before any launch was at work")
        return
    edges = [(begin_ns, begin_ns), *spans, (end_ns, end_ns)]
    for place, gap in enumerate(served_time.between(edges)):
        counted = {0: served_time.started_s(load), len(spans): 0.0}
        counted_s = counted[place] if place in counted else served_time.ordinary_s(gap, load.suspensions)
        if (seconds := (gap[1] - gap[0]) / 1e9 - counted_s) >= _REPORTED_S:
            ordinary = {0: "the first launch began late", len(spans): "no launch followed"}
            why = _why(gap, failed, waits, load) or ordinary.get(place, "no launch was at work")
            yield Missing(segment.at(gap[0]), seconds, why)


def _mostly_gaps(work: Work) -> Iterator[Missing]:
    for segment, load in work.items():
        found = served_time.parts(load)
        if (seconds := found.between_s - found.worked_s) >= _REPORTED_S:
            begin_ns, _ = min(load.launches)
            others_s = (
                found.between_s - sum(end_ns - start_ns for start_ns, end_ns in served_time.joined(load.cut_off)) / 1e9
            )
            cut_off = others_s - found.worked_s < _REPORTED_S
            why = _CUT_OFF if cut_off else "launches were shorter than the gaps between them"
            yield Missing(segment.at(begin_ns), seconds, why)


def _why(gap: Span, failed: Sequence[Lost], waits: Sequence[Span], load: Load) -> str:
    for attempt, cell, failure in failed:
        if attempt.start.at_ns < gap[1] and over_ns(attempt) > gap[0]:
            return f"a launch of {cell_name(cell)} failed: {failure.category}"
    if _any_in(gap, load.suspensions):
        return "the orchestrator was suspended"
    if _any_in(gap, load.cut_off):
        return _CUT_OFF
    if _any_in(gap, waits):
        return "the device waited for another device or for other processes on it"
    return ""


def _any_in(gap: Span, spans: Iterable[Span]) -> bool:
    return any(begin_ns < gap[1] and end_ns > gap[0] for begin_ns, end_ns in spans)
