"""The run as a whole: its summary, its failures, and the cost of one process per launch (measurement of a cell)."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from orchestrator.analysis import batch_scans
from orchestrator.analysis.attribution import Fault
from orchestrator.analysis.evidence import Evidence, mean
from orchestrator.analysis.results import outcome_word, report_attempt
from orchestrator.analysis.time_ledgers import overhead_ms
from orchestrator.config.run_configuration import Isolation
from orchestrator.figures.cells import Measured, ModelResult, PhaseMetrics, Status
from orchestrator.figures.report import BestThroughput, CellCounts, FailureReport, Overhead, Summary
from orchestrator.gpu.telemetry import validity
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt

NO_SCORE: Final = "a score needs a baseline of your own (--compare-baseline)"
NO_SCORE_OF_GPUS: Final = (
    "a score needs a baseline: use --compare-baseline h200-141gb-all (a GPU alone, in fp32 at batch 32; several GPUs "
    "need --solo), or a baseline of your own"
)


def summary(archive: Archive, evidence: Evidence, results: Sequence[ModelResult]) -> Summary:
    """Return the figures of the run as a whole, without a score: that needs a baseline (compare/references.py)."""
    return Summary(
        overall_score=None,
        rank_among_tested=None,
        score_note=NO_SCORE_OF_GPUS if any(device.kind == "cuda" for device in archive.stored.devices) else NO_SCORE,
        best_model_throughput=_best(results),
        peak_memory_usage_mb=max(
            (metric.peak_memory_mb for metric in _working(results) if metric.peak_memory_mb is not None), default=None
        ),
        average_gpu_utilization=mean(device.utilization_percent for device in evidence.devices.values()),
        average_power_draw_w=mean(device.power_w for device in evidence.devices.values()),
        cells=_counts(archive, evidence),
    )


def overhead(archive: Archive, evidence: Evidence) -> Overhead:
    """Return what a process for each launch costs, and from how many launches on the zygote saves time.

    The zygote imports torch once and forks the launches. The cost is a median over the launches with a result, in ms;
    None without any. `pays_from_launches` is then None, too, and also if no zygote ran or it saves no time.
    """
    isolation = archive.stored.configuration.isolation
    good = [attempt for attempt in archive.attempts if attempt.start.launch in evidence.launches]
    ledgers = [(evidence.launches[attempt.start.launch].result.ledger, attempt) for attempt in good]
    zygote_ms = median(zygote.start_ms for zygote in archive.zygotes) if archive.zygotes else None
    pays_from: int | None = None
    if isolation is Isolation.EXEC:
        note = "every launch started an interpreter of its own; there was no zygote"
    elif zygote_ms is None or not ledgers:
        note = "nothing was launched from a zygote"
    else:
        saved_ms = zygote_ms - median(spent.start_ms + spent.import_ms for spent, _ in ledgers)
        pays_from = math.ceil(zygote_ms / saved_ms) if saved_ms > 0 else None
        note = "an estimate: it assumes that a new interpreter costs as much as the start of the zygote"
    return Overhead(
        isolation=isolation,
        launches=len(ledgers),
        median_ms=median(overhead_ms(spent, attempt) for spent, attempt in ledgers) if ledgers else None,
        zygote_start_ms=zygote_ms,
        pays_from_launches=pays_from,
        note=note,
    )


def failures(archive: Archive, evidence: Evidence, faults: Mapping[int, Fault]) -> Iterator[FailureReport]:
    """Yield every launch without a valid result, interrupted and running ones included, earliest first.

    faults: launch → cause of its failure. Launches that a batch size scan counts as a limit are omitted.
    """
    for attempt in sorted(archive.attempts, key=lambda attempt: attempt.started):
        if outcome_word(attempt, evidence.damaged) == "result" or batch_scans.is_an_answer(archive, evidence, attempt):
            continue
        report = report_attempt(attempt, evidence.damaged)
        cell = archive.cells[attempt.start.cell]
        yield FailureReport(
            at=report.started,
            launch=report.launch,
            cell=cell.id,
            status=evidence.outcomes[cell.id].status,
            gpu_uuid=attempt.device,
            gpu_id=archive.devices[attempt.device].gpu_id,
            model_name=cell.model,
            workload=cell.workload,
            precision=cell.precision,
            batch_size=report.batch_size,
            attempt=report.attempt,
            outcome=report.outcome,
            category=report.category,
            message=report.message or _unfinished(archive, attempt),
            phase=report.phase,
            code=report.code,
            signal=report.failure_signal,
            exception=report.exception,
            evidence=report.evidence | ({"fault": faults[report.launch].text} if report.launch in faults else {}),
            folder=report.folder,
        )


def _counts(archive: Archive, evidence: Evidence) -> CellCounts:
    states = Counter(outcome.status for outcome in evidence.outcomes.values())
    slots = archive.stored.plan.slots
    planned = Counter(cell for cell, _ in slots)
    planned.subtract(cell for cell, _ in archive.dropped.keys() & slots)
    counts = {launch for outcome in evidence.outcomes.values() for launch in outcome.valid_launches}
    made = Counter(
        attempt.start.cell
        for attempt in archive.attempts
        if attempt.start.launch in counts and (attempt.start.cell, attempt.start.round) in slots
    )
    short = (
        cell for cell, outcome in evidence.outcomes.items() if outcome.valid_launches and made[cell] < planned[cell]
    )
    return CellCounts(
        planned=len(archive.stored.plan.cells),
        short_of_launches=len(list(short)),
        ok=states[Status.OK],
        degraded=states[Status.DEGRADED],
        referred=states[Status.REFERRED],
        does_not_fit=states[Status.DOES_NOT_FIT],
        unsupported=states[Status.UNSUPPORTED],
        failed=states[Status.FAILED],
        dropped=states[Status.DROPPED],
        missing=states[Status.MISSING],
        throttled=sum(
            any(validity.throttled(evidence.launches[launch].readings) for launch in outcome.valid_launches)
            for outcome in evidence.outcomes.values()
        ),
    )


def _best(results: Sequence[ModelResult]) -> BestThroughput | None:
    candidates = [
        BestThroughput(
            model=result.model_name,
            batch_size=metric.batch_size,
            throughput=metric.throughput_samples_per_sec,
            phase=phase,
            precision=result.precision,
            gpu_id=result.gpu_id,
            gpu_uuid=result.gpu_uuid,
        )
        for result, phase, metric in _phases(results)
        if metric.throughput_samples_per_sec is not None and metric.batch_size is not None and not metric.wrong
    ]
    return max(candidates, key=lambda candidate: candidate.throughput, default=None)


def _phases(results: Sequence[ModelResult]) -> Iterator[tuple[ModelResult, str, PhaseMetrics]]:
    for result in results:
        for metric in result.inference_metrics.values():
            yield result, "inference", metric
        for metric in result.training_metrics.values():
            yield result, "training", metric


def _working(results: Sequence[ModelResult]) -> Iterator[Measured]:
    for _, _, metric in _phases(results):
        yield metric
    for result in results:
        yield from result.generation_metrics.values()


def _unfinished(archive: Archive, attempt: Attempt) -> str:
    running = archive.finished is None and attempt.segment == archive.segments[-1]
    return f"the journal has no end of this launch: it was interrupted{', or still runs' if running else ''}"
