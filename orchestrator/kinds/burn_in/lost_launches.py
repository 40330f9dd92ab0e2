"""Launches of a burn-in without a result, and what they mean for a device. Pure.

    hung while at work on the device ────────────────────────────────────▶ UNKNOWN
    failed otherwise ────────────────────────────┬─ not repeated ────────▶ UNKNOWN
                                                 └─ repeated with result ▶ WARN
    ended with the run (stop, kill, time limit) ─┬─ long overdue by then ▶ UNKNOWN
                                                 └─ not overdue ─────────▶ no finding
    result file damaged or deleted ──────────────┬─ not repeated ────────▶ UNKNOWN
    ended by the host or a user of the host ─────┴─ repeated with result ▶ no finding

A repetition excuses neither a hang nor wrong bits.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from orchestrator.config.run_configuration import BurnIn
from orchestrator.kinds.burn_in import served_time
from orchestrator.kinds.burn_in.findings import cell_name
from orchestrator.kinds.burn_in.served_time import AT_WORK, Span
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.failure_policy import BEFORE_DEVICE, Trait, has_trait
from orchestrator.store.journal_records import Segment
from orchestrator.system.calendar_times import iso
from protocol.cell import Cell, Device
from protocol.failure import Category, Failure, Phase

HUNG_CELLS: Final = 3
HUNG_S: Final = 20.0  # A launch hangs after HUNG_CELLS times its planned length and these seconds for its start
_AS_OTHERS: Final = 2  # It does not hang within this many times the longest launch of its kind


class Lost(NamedTuple):
    """A launch without a valid result that is a finding unless a repetition excuses it. failure: why it has none."""

    attempt: Attempt
    cell: Cell
    failure: Failure


def pauses(archive: Archive) -> Mapping[Segment, tuple[Span, ...]]:
    """Return session → (start, end) in monotonic ns of each suspension of the orchestrator. Deadlines exclude these."""
    return {
        segment: tuple((one.at_ns - round(one.seconds * 1e9), one.at_ns) for one in suspended)
        for segment, suspended in zip(archive.segments, archive.suspended, strict=True)
    }


def lost(archive: Archive, burn_in: BurnIn, damaged: Mapping[int, str] = MappingProxyType({})) -> tuple[Lost, ...]:
    """Return the launches without a valid result that are findings if no repetition excuses them.

    They failed, hung, or have a damaged result file. A launch that ended because the run was stopped, killed, or at its
    time limit is a finding only if it hung. damaged: number of a launch → what is wrong with its result file.
    """
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    kinds = {device.uuid: device.kind for device in archive.stored.devices}
    longest_s, halted = _longest_s(archive.attempts, cells), pauses(archive)
    found = []
    for attempt in archive.attempts:
        cell, failure = cells[attempt.start.cell], attempt.failure
        if failure is not None and has_trait(failure.category, Trait.WITH_RUN):
            planned_s = HUNG_CELLS * burn_in.cell_s[kinds[cell.devices[0]]] + HUNG_S
            most_s = max(planned_s, _AS_OTHERS * longest_s[cell_name(cell)])
            failure = _hung(attempt, halted[attempt.segment], most_s)
        if attempt.start.launch in damaged:
            words = damaged[attempt.start.launch]
            failure = Failure(category=Category.RESULT_LOST, message=words, phase=Phase.FINISH)
        if failure is not None:
            found.append(Lost(attempt, cell, failure))
    return tuple(found)


def cut_off(archive: Archive, launches: Sequence[Lost], device: Device) -> Iterator[Attempt]:
    """Yield the launches that were at work on a device when the run ended them, unless they are findings.

    The run ends launches on a request to stop, at its time limit, or if the orchestrator is killed. launches: the
    findings, from `lost`.
    """
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    findings = {one.attempt.start.launch for one in launches}
    for attempt in archive.attempts:
        working = attempt.failure is not None and attempt.failure.phase in AT_WORK
        if working and attempt.start.launch not in findings and device.uuid in cells[attempt.start.cell].devices:
            yield attempt


def failures(launches: Sequence[Lost], done: Collection[tuple[str, int]], device: Device) -> Iterator[str]:
    """Yield "<cell>, round 1, <time>: <failure>" of each failed launch of a device that was not repeated.

    A hang counts as not repeated. launches: from `lost`. done: (cell id, round) of the launches with a result.
    """
    for launch in _not_repeated(launches, done, device):
        if launch.failure.category is not Category.RESULT_LOST:
            yield _describe(*launch)


def lost_results(launches: Sequence[Lost], done: Collection[tuple[str, int]], device: Device) -> Iterator[str]:
    """Yield "<cell>, round 1, <time>: <failure>" of a device's launches whose lost result was not measured again.

    done: (cell id, round) of the launches with a result.
    """
    for launch in _not_repeated(launches, done, device):
        if launch.failure.category is Category.RESULT_LOST:
            yield _describe(*launch)


def repeated(launches: Sequence[Lost], done: Collection[tuple[str, int]], device: Device) -> Iterator[str]:
    """Yield "<cell>, round 1, <time>: <failure>" of each failed launch of a device that was repeated with a result.

    Failures caused by another device or from outside the run are excluded. done: (cell id, round) with a result.
    """
    for launch in launches:
        ours = device.uuid in launch.cell.devices and (launch.failure.device or device.uuid) == device.uuid
        if ours and _is_repeated(launch, done) and not has_trait(launch.failure.category, Trait.FROM_OUTSIDE):
            yield _describe(*launch)


def _not_repeated(launches: Sequence[Lost], done: Collection[tuple[str, int]], device: Device) -> Iterator[Lost]:
    for launch in launches:
        if device.uuid in launch.cell.devices and not _is_repeated(launch, done):
            yield launch


def _is_repeated(launch: Lost, done: Collection[tuple[str, int]]) -> bool:
    start, failure = launch.attempt.start, launch.failure
    excused = failure.stopped is True or failure.phase in BEFORE_DEVICE
    hung = failure.category is Category.DEADLINE and not excused
    return not hung and (start.cell, start.round) in done


def _describe(attempt: Attempt, cell: Cell, failure: Failure) -> str:
    at_ns = attempt.end.at_ns if attempt.end is not None and attempt.lasted_ms is not None else attempt.start.at_ns
    when = iso(attempt.segment.at(at_ns))  # the clock of a later segment may be another one
    return f"{cell_name(cell)}, round {attempt.start.round + 1}, {when}: {failure.category}: {failure.message}"


def _longest_s(attempts: Sequence[Attempt], cells: Mapping[str, Cell]) -> Mapping[str, float]:
    found: dict[str, float] = defaultdict(float)
    for one in attempts:
        if one.promised is not None and one.lasted_ms is not None:
            name = cell_name(cells[one.start.cell])
            found[name] = max(found[name], one.lasted_ms / 1000)
    return found


def _hung(attempt: Attempt, halted: Sequence[Span], most_s: float) -> Failure | None:
    if attempt.failure is None or attempt.lasted_ms is None:
        return None
    begin_ns, lasted_ns = attempt.start.at_ns, round(attempt.lasted_ms * 1e6)
    at_work_s = (lasted_ns - served_time.overlap_ns((begin_ns, begin_ns + lasted_ns), halted)) / 1e9
    if at_work_s <= most_s:
        return None
    message = f"still at work after {at_work_s:.0f} s, when the run ended ({most_s:.0f} s suffice)"
    return Failure(category=Category.DEADLINE, message=message, phase=attempt.failure.phase)
