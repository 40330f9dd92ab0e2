"""What the run says as a whole: its summary, what isolation cost, what failed, and how it ended."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Final

from orchestrator.analysis import batch_scans, health
from orchestrator.analysis.attribution import Fault
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import KindAnalysis
from orchestrator.analysis.outcomes import Status
from orchestrator.analysis.results import outcome_word, report_attempt
from orchestrator.analysis.time_ledgers import overhead_ms
from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Isolation
from orchestrator.figures.cells import Measured, ModelResult, PhaseMetrics
from orchestrator.figures.comparisons import Standing
from orchestrator.figures.health import HealthReport
from orchestrator.figures.report import BestThroughput, CellCounts, FailureReport, Overhead, RunVerdict, Summary
from orchestrator.gpu.telemetry import validity
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.stats.siblings import SiblingVerdict
from protocol.exit_codes import MEANING, ExitCode

NO_SCORE: Final = "a score needs a baseline: --compare-baseline, of run or of report, with one of your own"
NO_SCORE_OF_GPUS: Final = (
    "a score needs a baseline, of run or of report: --compare-baseline h200-141gb, for what a GPU does alone (on "
    "several GPUs: --solo) in fp32 at batch 32, or one of your own"
)
TAINTED: Final = "tainted: faults were injected on purpose, so nothing here is a measurement"
"""So many groups of GPUs are named with a reason each."""
_WORDS: Final = {ExitCode.PASSED: "complete", ExitCode.HARDWARE: "hardware fault"}


def summary(archive: Archive, evidence: Evidence, results: Sequence[ModelResult]) -> Summary:
    """The run in a few figures."""
    return Summary(
        overall_score=None,
        rank_among_tested=None,
        score_note=NO_SCORE_OF_GPUS if any(device.kind == "cuda" for device in archive.stored.devices) else NO_SCORE,
        best_model_throughput=_best(results),
        peak_memory_usage_mb=max(
            (metric.peak_memory_mb for metric in _working(results) if metric.peak_memory_mb is not None), default=None
        ),
        average_gpu_utilization=_mean([device.utilization_percent for device in evidence.devices.values()]),
        average_power_draw_w=_mean([device.power_w for device in evidence.devices.values()]),
        cells=_counts(archive, evidence),
    )


def overhead(archive: Archive, evidence: Evidence) -> Overhead:
    """What a process of its own for each launch cost, and whether the zygote paid."""
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
        note = "an estimate: a new interpreter for each launch is taken to cost what the zygote's own start did"
    return Overhead(
        isolation=isolation,
        launches=len(ledgers),
        median_ms=median(overhead_ms(spent, attempt) for spent, attempt in ledgers) if ledgers else None,
        zygote_start_ms=zygote_ms,
        pays_from_launches=pays_from,
        note=note,
    )


def failures(archive: Archive, evidence: Evidence, faults: Mapping[int, Fault]) -> Iterator[FailureReport]:
    """Every launch without a result, earliest first: of several failures the first is nearest to the cause.

    faults: whose they were, by launch.
    """
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    labels = {device.uuid: device.gpu_id for device in archive.stored.devices}
    for attempt in sorted(archive.attempts, key=lambda attempt: attempt.started):
        if outcome_word(attempt, evidence.damaged) == "result" or batch_scans.is_an_answer(archive, evidence, attempt):
            continue
        report = report_attempt(attempt, evidence.damaged)
        cell = cells[attempt.start.cell]
        yield FailureReport(
            at=report.started,
            launch=report.launch,
            cell=cell.id,
            status=evidence.outcomes[cell.id].status,
            gpu_uuid=attempt.device,
            gpu_id=labels[attempt.device],
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
            evidence=report.evidence | ({"fault": faults[report.launch].words} if report.launch in faults else {}),
            folder=report.folder,
        )


def verdict(
    archive: Archive,
    evidence: Evidence,
    judged: HealthReport,
    found: KindAnalysis,
    slow: Sequence[Standing],
    *,
    counts: CellCounts,
    short: str,
) -> RunVerdict:
    """The exit code and every reason for it. What does not fit is listed and counts as complete.

    slow: how each GPU stands beside its siblings; a straggler is said, and changes no exit code.
    found: what its kind adds. counts: those of the summary. short: what is said of cells with launches to come.
    """
    reasons = [*found.incomplete]
    reasons += [TAINTED] if archive.stored.configuration.tainted else []
    reasons.extend(_without_end(archive, evidence))
    if counts.missing:
        why = "not measured yet" if evidence.goes_on else "not finished"
        reasons.append(f"{plural(counts.missing, 'cell')} of {counts.planned} without a result: {why}")
    if counts.failed:
        reasons.append(f"{plural(counts.failed, 'cell')} of {counts.planned} without a result: failed")
    if evidence.suspect:
        number = plural(len(evidence.suspect), "cell")
        reasons.append(
            f"{number} of {counts.planned} suspect: out of memory where another GPU of the same kind had room"
        )
    if counts.short_of_launches:
        reasons.append(f"{plural(counts.short_of_launches, 'cell')} of {counts.planned} {short}")
    if counts.dropped and not counts.ok + counts.degraded:
        reasons.append("no cell could be measured within the time limit")
    if archive.finished is not None and archive.finished.interrupted:
        reasons.append(f"interrupted: {archive.finished.reason}")
    reasons.extend(health.gaps(judged))
    labels = {device.uuid: device.label for device in archive.stored.devices}
    reasons.extend(found.unknown)
    broken = archive.finished is not None and archive.finished.broken
    code = ExitCode.INTERNAL if broken else ExitCode.INCOMPLETE if reasons else ExitCode.PASSED
    faults = [*health.faults(judged), *found.faults]
    if faults:
        code = code if broken else ExitCode.HARDWARE  # what broke by itself vouches for no verdict, but hides none
        reasons = [*faults, *reasons]
    if not reasons:
        reasons.append(f"every planned cell ({counts.planned}) is accounted for")
        reasons.extend(_remarks(counts))
        reasons.extend(health.warnings(judged))
        reasons.extend(found.warnings)
    reasons.extend(_stragglers(slow, labels))
    if more := sum(one.launches_added for one in slow):
        reasons.append(f"{plural(more, 'launch was', 'launches were')} added because a GPU was SUSPECT")
    word = _WORDS.get(code, "incomplete")
    return RunVerdict(exit_code=int(code), word=word, meaning=MEANING[code], reasons=tuple(reasons))


def _stragglers(slow: Sequence[Standing], labels: Mapping[str, str]) -> Iterator[str]:
    """The GPUs that are slower than their siblings beyond the margin."""
    for one in slow:
        if one.verdict is SiblingVerdict.STRAGGLER:
            yield f"{labels[one.gpu_uuid]} is a {one.verdict}: {one.why}; probably {one.reason}"


def _without_end(archive: Archive, evidence: Evidence) -> Iterator[str]:
    """Why a run of which nobody has written that it is over is not complete, whatever it has measured."""
    if evidence.goes_on:
        yield "the run still goes on: this is how far it has come"
    elif archive.finished is None:
        yield "the run did not come to its end: its process died or was killed; `resume` goes on with it"


def _remarks(counts: CellCounts) -> Iterator[str]:
    if counts.degraded or counts.referred:
        smaller = counts.degraded + counts.referred
        each = "it" if smaller == 1 else "each"
        cells = plural(smaller, "cell")
        yield f"{cells} ran out of memory at the batch size asked for; a smaller one stands for {each}"
    if counts.dropped:
        yield f"{plural(counts.dropped, 'cell')} dropped: there was no time within the limit, which is no failure"
    if counts.throttled:
        yield f"{plural(counts.throttled, 'cell')} measured on a GPU that was slowed down: marked throttled"
    if counts.does_not_fit:
        fits = "does not fit" if counts.does_not_fit == 1 else "do not fit"
        yield f"{plural(counts.does_not_fit, 'cell')} {fits} into the device's memory at any batch size"


def _counts(archive: Archive, evidence: Evidence) -> CellCounts:
    plan = archive.stored.plan
    states = Counter(outcome.status for outcome in evidence.outcomes.values())
    slots = plan.slots
    planned = Counter(cell for cell, _ in slots)
    planned.subtract(cell for cell, _ in archive.dropped.keys() & slots)
    counts = {launch for outcome in evidence.outcomes.values() for launch in outcome.counted}
    made = Counter(
        one.start.cell
        for one in archive.attempts
        if one.start.launch in counts and (one.start.cell, one.start.round) in slots
    )
    short = sum(1 for cell, outcome in evidence.outcomes.items() if outcome.counted and made[cell] < planned[cell])
    return CellCounts(
        planned=len(plan.cells),
        short_of_launches=short,
        ok=states[Status.OK],
        degraded=states[Status.DEGRADED],
        referred=states[Status.REFERRED],
        does_not_fit=states[Status.DOES_NOT_FIT],
        failed=states[Status.FAILED],
        dropped=states[Status.DROPPED],
        missing=states[Status.MISSING],
        throttled=sum(
            any(validity.throttled(evidence.launches[launch].readings) for launch in outcome.counted)
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
        if metric.throughput_samples_per_sec is not None and metric.batch_size is not None
    ]
    return max(candidates, key=lambda candidate: candidate.throughput, default=None)


def _phases(results: Sequence[ModelResult]) -> Iterator[tuple[ModelResult, str, PhaseMetrics]]:
    for result in results:
        for metric in result.inference_metrics.values():
            yield result, "inference", metric
        for metric in result.training_metrics.values():
            yield result, "training", metric


def _working(results: Sequence[ModelResult]) -> Iterator[Measured]:
    """Models at work: all but loading."""
    for _, _, metric in _phases(results):
        yield metric
    for result in results:
        yield from result.generation_metrics.values()


def _unfinished(archive: Archive, attempt: Attempt) -> str:
    running = archive.finished is None and attempt.segment == archive.segments[-1]
    return "no end was recorded: interrupted" + (", or still running" if running else "")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
