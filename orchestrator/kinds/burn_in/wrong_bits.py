"""Wrong bits found by launches, even if their result was withdrawn, damaged or missing. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.analysis.discarded_results import UNREAD
from orchestrator.analysis.evidence import Evidence
from orchestrator.kinds.burn_in import links
from orchestrator.kinds.burn_in.bit_comparison import Sample
from orchestrator.kinds.burn_in.findings import Wrong, cell_name
from orchestrator.kinds.burn_in.links import Accused, Attributed
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.system.calendar_times import iso
from protocol.cell import Cell, Device, Workload
from protocol.verification import Verification


@dataclass(frozen=True)
class Uncounted:
    """A launch without a valid result that left mismatches or a withdrawn result, or whose folder cannot be read.

    seen: device UUID → what it verified.
    """

    attempt: Attempt
    cell: Cell
    seen: Mapping[str, Verification]

    @property
    def cut_off(self) -> bool:
        """Whether no device reports a check: the launch ended before its result, or the result is damaged.

        Then only mismatches of the launch are known, if any.
        """
        return not any(one.checks for one in self.seen.values())


@dataclass(frozen=True)
class Share:
    """Mismatches of a launch without a valid result that count against one device. mismatches: their number.

    wrong: those with details. unclear: number of those without details that may be another device's.
    """

    workload: Workload
    mismatches: int
    wrong: tuple[Wrong, ...]
    unclear: int


def uncounted(archive: Archive, evidence: Evidence) -> tuple[Uncounted, ...]:
    """Return the launches without a valid result that `Uncounted` describes, in order of the journal."""
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    return tuple(
        Uncounted(attempt, cells[attempt.start.cell], evidence.uncounted[attempt.start.launch])
        for attempt in archive.attempts
        if attempt.start.launch in evidence.uncounted
    )


def shares(launches: Iterable[Uncounted], device: Device, accused: Accused) -> Iterator[Share]:
    """Yield the mismatches of each launch that count against a device, if any. accused: from `links.accused`."""
    for launch in launches:
        if device.uuid in launch.cell.devices:
            attributed = links.attributed(launch.seen, launch.cell, device.uuid, accused, cut_off=launch.cut_off)
            if attributed.verification is not None and attributed.verification.mismatches:
                kept = tuple(wrong(launch.attempt, launch.cell, attributed))
                yield Share(launch.cell.workload, attributed.verification.mismatches, kept, attributed.unclear)


def wrong(attempt: Attempt, cell: Cell, attributed: Attributed) -> Iterator[Wrong]:
    """Yield the mismatches of a launch that count against one device and have details (the first KEPT_MISMATCHES).

    attributed: from `links.attributed`, which decides what counts, and why another device may be at fault instead.
    """
    kept = () if attributed.verification is None else attributed.verification.kept
    for mismatch, doubt in zip(kept, attributed.doubts, strict=True):
        at = iso(attempt.segment.at(mismatch.at_ns))
        yield Wrong(cell.workload, cell.precision, attempt.start.round, at, mismatch, doubt)


def unread(launches: Iterable[Uncounted], device: Device) -> Iterator[str]:
    """Yield "<cell>, round 1, <time>: reason" for each launch of a device whose mismatches cannot be read."""
    for launch in launches:
        verification = launch.seen.get(device.uuid)
        if verification is not None and (why := verification.not_tested.get(UNREAD)) and launch.cut_off:
            attempt = launch.attempt
            yield f"{cell_name(launch.cell)}, round {attempt.start.round + 1}, {iso(attempt.started)}: {why}"


def samples(launches: Iterable[tuple[Attempt, Cell, Verification | None]]) -> Iterator[Sample]:
    """Yield a Sample of each launch, to compare it with other launches. Its digests are () if the launch made none.

    launches: (launch, cell, what its first device verified). A launch with None is skipped.
    """
    for attempt, cell, verification in launches:
        if verification is not None:
            start = attempt.start
            key = (*verification.key, f"batch size {start.batch_size}")  # a halved batch may have other bits
            digests = (*verification.digests, *verification.losses)
            yield Sample(start.device, cell_name(cell), start.round, start.launch, key, digests, iso(attempt.started))
