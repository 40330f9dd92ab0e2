"""Results of batch size scans (`-b auto`): figures of each size tried, the largest that fits, the fastest. Pure."""

from collections.abc import Iterator
from typing import Final

from orchestrator.analysis.evidence import Evidence, LaunchEvidence
from orchestrator.figures.cells import BatchPoint, BatchScan
from orchestrator.figures.sources import mb
from orchestrator.plan import batch_scan
from orchestrator.plan.batch_scan import Tried
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.slots import SETTLED
from orchestrator.stats import percentiles
from protocol.cell import AUTO, Cell

BOUNDS: Final = {
    "cap": "the largest size that is tried",
    "time": "the time that one iteration may take",
}
"""What kept a scan from a larger batch (`batch_scan.bound`) → words of the report; other bounds are shown as is."""


def batch_scans(archive: Archive, evidence: Evidence) -> Iterator[BatchScan]:
    """Yield the result of every planned scan, finished or not, in the order of the plan."""
    return (_scan(cell, archive, evidence) for cell in archive.stored.plan.cells if cell.batch_size == AUTO)


def is_an_answer(archive: Archive, evidence: Evidence, attempt: Attempt) -> bool:
    """Whether a failed attempt gives a batch size scan an upper limit. False if the cell is no scan.

    True if it ran out of memory. Also True for any other failure that is not repeated, above a size that worked.
    """
    if attempt.failure is None or archive.replay.state.cells[attempt.start.cell].batch_size != AUTO:
        return False
    tried = archive.replay.without(evidence.damaged).state.slots[attempt.slot].tried
    return any(trial.launch == attempt.start.launch for trial in tried)


def _scan(cell: Cell, archive: Archive, evidence: Evidence) -> BatchScan:
    room = archive.stored.plan.rooms[cell.devices[0]]
    slot = archive.replay.without(evidence.damaged).state.slots[cell.id, 0]
    largest, best = batch_scan.largest(slot.tried), batch_scan.best(slot.tried)
    bound = batch_scan.bound(slot.tried, room)
    model = archive.stored.configuration.by_name[cell.model]
    outcome = evidence.outcomes[cell.id]
    failures = {attempt.start.launch: attempt.failure for attempt in archive.tries.get(cell.id, ())}
    return BatchScan(
        cell=cell.id,
        status=outcome.status,
        reason=outcome.reason,
        finished=slot.status in SETTLED,
        gpu_uuid=cell.devices[0],
        gpu_id=archive.devices[cell.devices[0]].gpu_id,
        model_name=cell.model,
        model_type=model.type,
        workload=cell.workload,
        precision=cell.precision,
        mode=cell.mode,
        input_size=cell.input_size,
        memory_format=cell.memory_format,
        new_tokens=cell.new_tokens,
        sample_unit=model.item,
        largest_batch_size=None if largest is None else largest.batch_size,
        bounded_by=BOUNDS.get(bound, bound),
        best_batch_size=None if best is None else best.batch_size,
        points=tuple(
            _point(
                trial,
                failure.category if (failure := failures.get(trial.launch)) else "",
                evidence.launches.get(trial.launch),
            )
            for trial in sorted(slot.tried, key=lambda trial: trial.batch_size)
        ),
    )


def _point(tried: Tried, why_not: str, launch: LaunchEvidence | None) -> BatchPoint:
    figures = tried.figures
    drift_percent = launch.figures.drift_percent if launch else None
    return BatchPoint(
        batch_size=tried.batch_size,
        launch=tried.launch,
        works=figures is not None,
        why_not=why_not,
        throughput_samples_per_sec=None if figures is None else figures.items_per_second,
        peak_memory_mb=None if figures is None else mb(figures.peak_bytes),
        launches=0 if figures is None else 1,
        steady_state=launch.result.warm_up.steady_state if launch else None,
        stop_reason=launch.result.stop_reason if launch else None,
        relative_half_width=launch.figures.relative_half_width if launch else None,
        drift_percent=drift_percent,
        drifting=percentiles.drifting(drift_percent),
    )
