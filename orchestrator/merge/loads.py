"""When each device was at work in a burn-in: from the launches of its segments to the time that was served. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.burn_in import served
from orchestrator.burn_in.served import Span
from orchestrator.burn_in.verdict import Idle
from orchestrator.deciding import recovery
from orchestrator.disk.archive import Archive, Attempt
from orchestrator.disk.evidence import Evidence, LaunchEvidence
from orchestrator.disk.records import Segment
from orchestrator.merge import lost_launches
from orchestrator.merge.lost_launches import Lost
from orchestrator.merge.times import iso
from orchestrator.merge.waits import over_ns


@dataclass(frozen=True)
class Load:
    """A device in one segment: its launches, and when these stood still."""

    launches: list[Span] = field(default_factory=list)
    stalls: list[Span] = field(default_factory=list)


Work = Mapping[Segment, Load]


def at_work(archive: Archive, evidence: Evidence, lost: Sequence[Lost]) -> Mapping[str, Work]:
    """Every device of a burn-in, by its UUID. Its verdict goes by this, and so does what `resume` is to make up for.

    lost: launches of the run that are a finding.
    """
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    good = [
        (attempt, evidence.launches[attempt.start.launch])
        for attempt in archive.attempts
        if attempt.start.launch in evidence.launches
    ]
    return {
        device.uuid: work(
            (one for one in good if device.uuid in cells[one[0].start.cell].devices),
            lost_launches.cut_off(archive, lost, device),
        )
        for device in archive.stored.devices
    }


class Served(NamedTuple):
    """Of the time that was asked for, what the device has served that has served least, and whether that is too little.

    One that was taken out is not waited for, or the others would do their night twice; unless all of them were.
    """

    seconds: float
    short: bool


def served_by_all(archive: Archive, evidence: Evidence) -> Served:
    """What a burn-in has served so far, which `resume` is to make up for."""
    asked = archive.stored.configuration.burn_in
    assert asked is not None
    found = at_work(archive, evidence, lost_launches.lost(archive, asked))
    out = recovery.staying_out(found, archive.taken_out)
    seconds = {device: served_s(found[device.uuid]) for device in archive.stored.devices if device.uuid not in out}
    return Served(
        min(seconds.values()),
        any(served.is_short(s, asked.duration_s, asked.cell_s[device.kind]) for device, s in seconds.items()),
    )


def work(good: Iterable[tuple[Attempt, LaunchEvidence]], cut_off: Iterable[Attempt]) -> Work:
    """That of a device. good: its launches with a result, from the first measured block to the last.

    cut_off: those that ended with the run, and did not hang. They prove nothing, but until then it was at work.
    """
    found: dict[Segment, Load] = defaultdict(Load)
    for attempt, evidence in good:
        if evidence.worked_ns is not None:  # believed within what the journal says of the launch
            begin_ns, end_ns = (min(max(at_ns, attempt.start.at_ns), over_ns(attempt)) for at_ns in evidence.worked_ns)
            found[attempt.segment].launches.append((begin_ns, end_ns))
            found[attempt.segment].stalls.extend(evidence.stalls)
    for attempt in cut_off:
        found[attempt.segment].launches.append((attempt.start.at_ns, over_ns(attempt)))
    return found


def served_s(work: Work) -> float:
    """Seconds that a device was at work, interruptions left out."""
    return served.seconds((segment.monotonic_ns, load.launches, load.stalls) for segment, load in work.items())


def idle(work: Work, waits: Mapping[Segment, Sequence[Span]]) -> Iterator[Idle]:
    """When a device was idle for long. waits: when it may have waited for a device, itself or another (waits.py)."""
    for segment, load in work.items():
        first_ns, last_ns = min(begin for begin, _ in load.launches), max(end for _, end in load.launches)
        edges = ((first_ns, first_ns), (last_ns, last_ns))  # a stall may be the last thing there was
        worked = (*served.without(load.launches, load.stalls), *edges)
        for begin_ns, seconds in served.idle(worked, waits.get(segment, ())):
            yield Idle(iso(segment.at(begin_ns)), seconds)
