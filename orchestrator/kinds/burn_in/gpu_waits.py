"""Times in which a device may have waited for other devices, according to the journal. Pure.

A device waits while a failed launch is repeated, while another process uses a GPU, or while a GPU's memory is not free.
The wait ends at the latest when that GPU is quarantined (state/blocked_gpus.py).
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from orchestrator.engine.memory_gate import TIMEOUT_S
from orchestrator.kinds.burn_in.lost_launches import Lost
from orchestrator.kinds.burn_in.served_time import Span
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.blocked_gpus import PATIENCE_S
from orchestrator.store.journal_records import Foreign, Segment

_STEP_NS: Final = 1_000_000_000  # The longest time from one launch to the next without waiting
_LONGEST_NS: Final = round((PATIENCE_S + TIMEOUT_S) * 1e9)
"""Longest time (ns) for which devices wait for a GPU that is not free. Then the GPU is quarantined."""


def waits_by_segment(archive: Archive, lost: Iterable[Lost]) -> Mapping[Segment, Sequence[Span]]:
    """Return session → times (monotonic ns) in which any device may have waited for another. The times may overlap.

    The times are those of three causes: launches that are repeated, memory that is not free, and other processes on a
    GPU. Of a launch in `lost` (launches without a valid result), all attempts at its cell and round count.
    """
    waits: dict[Segment, list[Span]] = defaultdict(list)
    again = {(attempt.start.cell, attempt.start.round) for attempt, _, _ in lost}
    for attempt in archive.attempts:
        if (attempt.start.cell, attempt.start.round) in again:
            waits[attempt.segment].append((attempt.start.at_ns, over_ns(attempt)))
    for segment, span in _memory(archive):
        waits[segment].append(span)
    if not archive.stored.configuration.allow_busy:  # otherwise no launch waits for another process
        for segment, records in archive.foreign.items():
            waits[segment].extend(_foreign(records))
    return waits


def for_links(archive: Archive, uuid: str) -> Iterator[tuple[Segment, Span]]:
    """Yield (session, (begin, end) in monotonic ns) of each wait of a device before a launch on several devices.

    uuid: of the device. It waits until the other devices have ended their own launches.
    """
    several = {cell.id: len(cell.devices) > 1 for cell in archive.stored.plan.cells if uuid in cell.devices}
    for segment in archive.segments:
        attempts = [attempt for attempt in archive.attempts if attempt.segment == segment]
        mine = [attempt for attempt in attempts if attempt.start.cell in several]
        others = [(attempt.start.at_ns, over_ns(attempt)) for attempt in attempts if attempt.start.cell not in several]
        begun = (attempt.start.at_ns for attempt in mine if several[attempt.start.cell])
        dropped = (at_ns for (cell, _), at_ns in archive.dropped_ns.get(segment, {}).items() if several.get(cell))
        ends = sorted([*begun, *dropped, math.inf])
        begins = [*(attempt.start.at_ns for attempt in mine), math.inf]
        for attempt, next_ns in zip(mine, begins[1:], strict=True):
            idle_ns = over_ns(attempt)
            until_ns = ends[bisect.bisect_right(ends, idle_ns)]
            if idle_ns + _STEP_NS <= until_ns <= next_ns and until_ns < math.inf:
                last_ns = max((end_ns for begin_ns, end_ns in others if begin_ns < until_ns), default=idle_ns)
                if last_ns >= idle_ns + _STEP_NS:
                    yield segment, (idle_ns, min(int(until_ns), last_ns))


def over_ns(attempt: Attempt) -> int:
    """Return the end of a launch in monotonic ns; its start if the end is unknown or was recorded after a resume."""
    return attempt.start.at_ns + round((attempt.lasted_ms or 0.0) * 1e6)


def _foreign(records: Iterable[Foreign]) -> Iterator[Span]:
    since: dict[str, int] = {}
    for record in records:
        if record.by:
            since.setdefault(record.device, record.at_ns)
        elif record.device in since:
            came_ns = since.pop(record.device)
            yield came_ns, min(record.at_ns, came_ns + _LONGEST_NS)
    for came_ns in since.values():
        yield came_ns, came_ns + _LONGEST_NS


def _memory(archive: Archive) -> Iterator[tuple[Segment, Span]]:
    """Yield (session, (begin, end) in monotonic ns) of each wait for memory that a launch had not freed when it ended.

    A wait ends at the device's next launch, at the latest after _LONGEST_NS.
    """
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    launched: dict[tuple[Segment, str], list[Attempt]] = defaultdict(list)
    for attempt in archive.attempts:
        for device in cells[attempt.start.cell].devices:
            launched[attempt.segment, device].append(attempt)
    for (segment, _), mine in launched.items():
        for before, after in pairwise([*mine, None]):
            if before is not None and before.left is not None and before.left.teardown_ms >= TIMEOUT_S * 1000:
                given_up_ns = over_ns(before) + _LONGEST_NS
                yield segment, (over_ns(before), given_up_ns if after is None else min(after.start.at_ns, given_up_ns))
