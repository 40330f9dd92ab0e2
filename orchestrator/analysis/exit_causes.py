"""Collect the faults, failures and gaps of a run that decide its exit code (figures/exit_code.py). Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.analysis import health
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import KindAnalysis
from orchestrator.config.naming import plural
from orchestrator.figures.comparisons import Standing
from orchestrator.figures.exit_code import Cause, CauseKind, RunVerdict, run_verdict
from orchestrator.figures.health import HealthReport
from orchestrator.figures.report import CellCounts
from orchestrator.state.archive import Archive
from orchestrator.stats.slowdown_reasons import CAUSES
from orchestrator.stats.stragglers import SiblingVerdict

TAINTED: Final = "this was a test with injected faults: its exit code and figures say nothing about the hardware"


def verdict(
    archive: Archive,
    evidence: Evidence,
    judged: HealthReport,
    additions: KindAnalysis,
    slow: Sequence[Standing],
    *,
    counts: CellCounts,
    short: str,
) -> RunVerdict:
    """Return the exit code of a run, with its reasons and remarks. `report_builder.merge` adds causes to it.

    Slow GPUs are only remarks, and so are models that do not fit in memory. If there are causes, the only remarks are
    those on slow GPUs and added launches. judged: verdicts on health. additions: findings of this kind of run. slow:
    comparison of each GPU with its siblings. counts: number of cells by status. short: words for cells with
    fewer launches than planned (ReportTerms.short_of_launches).
    """
    causes = tuple(_causes(archive, evidence, judged, additions, counts=counts, short=short))
    remarks: list[str] = []
    if not causes:
        remarks.append(f"each of the {counts.planned} planned cells has a result, or a reason why it has none")
        remarks.extend(_remarks(counts))
        remarks.extend(health.warnings(judged))
        remarks.extend(additions.warnings)
    remarks.extend(describe_slow_gpus(slow))
    if more := sum(standing.launches_added for standing in slow):
        remarks.append(f"{plural(more, 'launch was', 'launches were')} added to the plan to decide a verdict")
    return run_verdict(causes, remarks)


def describe_slow_gpus(slow: Iterable[Standing]) -> Iterator[str]:
    """Yield a sentence for each GPU that is slow for certain (not a SUSPECT); all GPUs of a SPLIT share one."""
    findings = [standing for standing in slow if standing.verdict.is_finding]
    yield from dict.fromkeys(
        f"{standing.verdict}: {standing.why}"
        if standing.verdict is SiblingVerdict.SPLIT
        else f"GPU {standing.gpu_id} is {_word(standing.verdict)}: {standing.why}{_probably(standing)}"
        for standing in findings
    )


def _word(verdict: SiblingVerdict) -> str:
    return verdict if verdict is SiblingVerdict.BELOW_BASELINE else f"a {verdict}"


def _probably(standing: Standing) -> str:
    return f"; probably {standing.reason}" if standing.reason in CAUSES else ""


def _causes(
    archive: Archive,
    evidence: Evidence,
    judged: HealthReport,
    additions: KindAnalysis,
    *,
    counts: CellCounts,
    short: str,
) -> Iterator[Cause]:
    tainted = [TAINTED] if archive.stored.configuration.tainted else []
    texts_by_kind: Mapping[CauseKind, Iterable[str]] = {
        CauseKind.BROKEN: _broken(archive),
        CauseKind.FAULT: (*health.faults(judged), *additions.faults),
        CauseKind.UNPROVEN: additions.unproven,
        CauseKind.TAINTED: tainted,
        CauseKind.STOPPED: _stopped(archive, evidence),
        CauseKind.CELLS: (*additions.failed, *_cells(counts, goes_on=evidence.goes_on)),
        CauseKind.MEMORY: _memory(evidence, counts),
        CauseKind.LAUNCHES: _launches(counts, short),
        CauseKind.TIME: _time(counts),
        CauseKind.HEALTH: health.gaps(judged),
        CauseKind.BURN_IN: additions.unknown,
    }
    for kind, texts in texts_by_kind.items():
        yield from (Cause(kind=kind, text=text) for text in texts)


def _broken(archive: Archive) -> Iterator[str]:
    if archive.finished is not None and archive.finished.broken:
        yield f"gpubench itself failed: {archive.finished.reason or 'it left no reason'}"


def _stopped(archive: Archive, evidence: Evidence) -> Iterator[str]:
    if evidence.goes_on:
        yield "the run is still running: this is its state so far"
    elif archive.finished is None:
        yield "the run did not end: its process died or was killed. `resume` continues the run"
    elif archive.finished.interrupted and not archive.finished.broken:
        yield f"interrupted: {archive.finished.reason}"


def _cells(counts: CellCounts, *, goes_on: bool) -> Iterator[str]:
    if counts.missing:
        why = "not measured yet" if goes_on else "not finished"
        yield f"{_of_planned(counts.missing, counts)} no result: {why}"
    if counts.failed:
        yield f"{_of_planned(counts.failed, counts)} no result: failed"


def _of_planned(number: int, counts: CellCounts) -> str:
    return f"{number} of {plural(counts.planned, 'cell')} {'has' if number == 1 else 'have'}"


def _memory(evidence: Evidence, counts: CellCounts) -> Iterator[str]:
    if evidence.suspect:
        number = plural(len(evidence.suspect), "cell")
        yield f"{number} of {counts.planned} suspect: out of memory where another GPU of the same kind had room"


def _launches(counts: CellCounts, short: str) -> Iterator[str]:
    if counts.short_of_launches:
        yield f"{plural(counts.short_of_launches, 'cell')} of {counts.planned} {short}"


def _time(counts: CellCounts) -> Iterator[str]:
    if counts.dropped and not counts.ok + counts.degraded:
        yield "no cell could be measured within the time limit"


def _remarks(counts: CellCounts) -> Iterator[str]:
    if smaller := counts.degraded + counts.referred:
        cells, has = plural(smaller, "cell"), "its result is" if smaller == 1 else "their results are"
        yield f"{cells} ran out of memory at the requested batch size; {has} of a smaller batch"
    if counts.dropped:
        yield f"{plural(counts.dropped, 'cell')} dropped because the time limit left no time; this is no failure"
    if counts.throttled:
        yield f"{plural(counts.throttled, 'cell')} measured on a GPU that was slowed down: marked throttled"
    if counts.does_not_fit:
        fits = "does not fit" if counts.does_not_fit == 1 else "do not fit"
        yield f"{plural(counts.does_not_fit, 'cell')} {fits} into the device's memory at any batch size"
    if counts.unsupported:
        cells = plural(counts.unsupported, "cell")
        yield f"{cells} unsupported on this machine: the remarks on the cells say what is missing"
