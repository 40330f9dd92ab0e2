"""Wrong bits found by launches, also by launches with a withdrawn result or none. Pure.

Those prove nothing else (analysis/discarded_results.py), but bits of withdrawn results are compared too.
"""

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
    """A launch without a valid result, and what it verified, by device."""

    attempt: Attempt
    cell: Cell
    seen: Mapping[str, Verification]

    @property
    def cut_off(self) -> bool:
        """Whether it ended before it had a result, so that only its mismatches are known."""
        return not any(one.checks for one in self.seen.values())


@dataclass(frozen=True)
class Share:
    """What counts against one device of such a launch. mismatches: all; wrong: those with details."""

    workload: Workload
    mismatches: int
    wrong: tuple[Wrong, ...]
    unclear: int


def uncounted(archive: Archive, evidence: Evidence) -> tuple[Uncounted, ...]:
    """Return the launches without a valid result that verified something."""
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    return tuple(
        Uncounted(attempt, cells[attempt.start.cell], evidence.uncounted[attempt.start.launch])
        for attempt in archive.attempts
        if attempt.start.launch in evidence.uncounted
    )


def shares(launches: Iterable[Uncounted], device: Device, accused: Accused) -> Iterator[Share]:
    """Return what counts against a device in each launch. accused: of the whole burn-in."""
    for one in launches:
        if device.uuid in one.cell.devices:
            found = links.attributed(one.seen, one.cell, device.uuid, accused, cut_off=one.cut_off)
            if found.verification is not None and found.verification.mismatches:
                kept = tuple(wrong(one.attempt, one.cell, found))
                yield Share(one.cell.workload, found.verification.mismatches, kept, found.unclear)


def wrong(attempt: Attempt, cell: Cell, found: Attributed) -> Iterator[Wrong]:
    """Return the mismatches that count against one device."""
    kept = () if found.verification is None else found.verification.kept
    for mismatch, doubt in zip(kept, found.doubts, strict=True):
        at = iso(attempt.segment.at(mismatch.at_ns))
        yield Wrong(cell.workload, cell.precision, attempt.start.round, at, mismatch, doubt)


def unread(launches: Iterable[Uncounted], device: Device) -> Iterator[str]:
    """Return the launches of a device whose mismatches cannot be read, with the reason."""
    for one in launches:
        found = one.seen.get(device.uuid)
        if found is not None and (why := found.not_tested.get(UNREAD)) and one.cut_off:
            yield f"{cell_name(one.cell)}, round {one.attempt.start.round + 1}, {iso(one.attempt.started)}: {why}"


def samples(launches: Iterable[tuple[Attempt, Cell, Verification | None]]) -> Iterator[Sample]:
    """Return the bits of launches for comparison. The first of several devices stands for all."""
    for attempt, cell, found in launches:
        if found is not None:
            start = attempt.start
            key = (*found.key, f"batch size {start.batch_size}")  # one that was halved has other bits, and may
            digests = (*found.digests, *found.losses)
            yield Sample(start.device, cell_name(cell), start.round, start.launch, key, digests, iso(attempt.started))
