"""When the devices of a burn-in were at work, and how much of it counts (served time). Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from orchestrator.analysis.evidence import Evidence, LaunchEvidence
from orchestrator.engine.kind import Remaining
from orchestrator.kinds.burn_in import lost_launches, served_time
from orchestrator.kinds.burn_in.findings import Idle
from orchestrator.kinds.burn_in.gpu_waits import over_ns
from orchestrator.kinds.burn_in.levels import requested
from orchestrator.kinds.burn_in.lost_launches import Lost
from orchestrator.kinds.burn_in.served_time import Load, Span
from orchestrator.plan import estimate
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.replay import staying_out
from orchestrator.state.time_budget import closing_s
from orchestrator.store.journal_records import Segment
from orchestrator.system.calendar_times import iso
from protocol.cell import Device

Work = Mapping[Segment, Load]


def at_work(archive: Archive, evidence: Evidence, lost: Sequence[Lost]) -> Mapping[str, Work]:
    """Return UUID of every device → its work: session → `Load`, its times at work in monotonic ns.

    lost: findings of `lost_launches.lost`. A launch that the end of a session cut off is work, unless it is in `lost`.
    """
    burn_in = requested(archive.stored.configuration)
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    good = [
        (attempt, evidence.launches[attempt.start.launch])
        for attempt in archive.attempts
        if attempt.start.launch in evidence.launches
    ]
    halted = lost_launches.pauses(archive)
    return {
        device.uuid: work(
            (launch for launch in good if device.uuid in cells[launch[0].start.cell].devices),
            lost_launches.cut_off(archive, lost, device),
            halted,
            burn_in.cell_s[device.kind],
        )
        for device in archive.stored.devices
    }


def remaining(archive: Archive, evidence: Evidence) -> Remaining:
    """Return served and remaining seconds of the device that served least; quarantined ones count only if all are."""
    burn_in = requested(archive.stored.configuration)
    return remaining_of(archive, at_work(archive, evidence, lost_launches.lost(archive, burn_in)))


def remaining_of(archive: Archive, at_work: Mapping[str, Work]) -> Remaining:
    """Return the same as `remaining`, given the work. at_work: UUID → work, as `at_work` returns it."""
    burn_in = requested(archive.stored.configuration)
    out = staying_out(at_work, archive.quarantined)
    waited_for = [device for device in archive.stored.devices if device.uuid not in out]
    seconds = {device: served_s(at_work[device.uuid]) for device in waited_for}
    left_s = burn_in.duration_s - min(seconds.values()) - closing_s(burn_in.duration_s)
    return Remaining(
        min(seconds.values()),
        left_s,
        any(
            served_time.is_short(served, burn_in.duration_s, longest_s(archive, device))
            and launch_s(archive, device) <= left_s
            for device, served in seconds.items()
        ),
    )


def longest_s(archive: Archive, device: Device) -> float:
    """Return the expected seconds of work of the longest of a device's planned cells."""
    stored = archive.stored
    burn_in, models = requested(stored.configuration), stored.configuration.by_name
    cell_s, scale = burn_in.cell_s[device.kind], estimate.scale(stored.configuration, device, stored.devices)
    mine = (cell for cell in stored.plan.cells if device.uuid in cell.devices)
    works_s = (estimate.timed_work_s(cell, models[cell.model], device, cell_s, scale) for cell in mine)
    return max(works_s, default=cell_s)


def launch_s(archive: Archive, device: Device) -> float:
    """Return the expected seconds of another launch of a device: the largest of three values.

    They are the median of its launches with a result, the shortest estimate for its cells, and the longest launch that
    the end of the run cut off. The last one is only taken from cells that never had a result.
    """
    stored = archive.stored
    cells = {cell.id: cell for cell in stored.plan.cells}
    mine = [cell for cell in cells.values() if device.uuid in cell.devices]
    least_s = min((estimate.launch_s(cell, stored.configuration, device) for cell in mine), default=0.0)
    seen_s = median(
        [
            attempt.lasted_ms / 1000
            for attempt in archive.attempts
            if attempt.promised and attempt.lasted_ms and device.uuid in cells[attempt.start.cell].devices
        ]
        or [0.0]
    )
    return max(seen_s, least_s, _unfinished_s(archive, device))


def _unfinished_s(archive: Archive, device: Device) -> float:
    burn_in = requested(archive.stored.configuration)
    done = {attempt.start.cell for attempt in archive.attempts if attempt.promised}
    stopped = lost_launches.cut_off(archive, lost_launches.lost(archive, burn_in), device)
    return max(
        (attempt.lasted_ms / 1000 for attempt in stopped if attempt.lasted_ms and attempt.start.cell not in done),
        default=0.0,
    )


def work(
    good: Iterable[tuple[Attempt, LaunchEvidence]],
    cut_off: Iterable[Attempt],
    halted: Mapping[Segment, tuple[Span, ...]],
    cell_s: float,
) -> Work:
    """Return session → times at work of a device. Sessions without work are missing.

    good: its launches with a result. cut_off: its launches that the end of the run cut off; of each, at most the last
    cell_s seconds count. cell_s: configured seconds of a cell. halted: every session of the run, in order → times
    (monotonic ns) in which the orchestrator was suspended.
    """
    first = next(iter(halted), None)
    loads = {
        segment: Load(suspensions=halted[segment], since_ns=segment.monotonic_ns if segment == first else None)
        for segment in halted
    }
    for attempt, evidence in good:
        if evidence.worked_ns is not None:  # believed within what the journal says of the launch
            begin_ns, end_ns = (min(max(at_ns, attempt.start.at_ns), over_ns(attempt)) for at_ns in evidence.worked_ns)
            loads[attempt.segment].launches.append((begin_ns, end_ns))
            loads[attempt.segment].stalls.extend(evidence.stalls)
    for attempt in cut_off:  # when its work began is unknown
        begin_ns, end_ns = attempt.start.at_ns, over_ns(attempt)
        loads[attempt.segment].launches.append((max(begin_ns, end_ns - round(cell_s * 1e9)), end_ns))
        loads[attempt.segment].cut_off.append((begin_ns, end_ns))
    return {segment: load for segment, load in loads.items() if load.launches}


def served_s(work: Work) -> float:
    """Return the seconds of a device that count towards the requested time: its launches, and short gaps around them.

    In each session, at most ORDINARY_S of a gap count, and at most as many seconds between launches as in launches.
    """
    return served_time.seconds(work.values())


def idle(work: Work, waits: Mapping[Segment, Sequence[Span]]) -> Iterator[Idle]:
    """Yield the gaps in a device's work with more than 60 unexplained seconds (served_time.LONG_S), and these seconds.

    Only the time from its first to its last launch of a session is searched. Launches that were cut off explain a gap,
    and so do `waits`: session → times (monotonic ns) in which the device may have waited for another one
    (gpu_waits.py).
    """
    for segment, load in work.items():
        first_ns, last_ns = min(begin for begin, _ in load.launches), max(end for _, end in load.launches)
        edges = ((first_ns, first_ns), (last_ns, last_ns))  # a launch may end with a stall
        worked = (*served_time.without(load.launches, load.stalls), *edges)
        for begin_ns, seconds in served_time.idle(worked, (*waits.get(segment, ()), *load.cut_off)):
            yield Idle(iso(segment.at(begin_ns)), seconds)
