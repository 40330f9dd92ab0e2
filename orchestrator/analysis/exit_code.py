"""The exit code of a run, with every reason for it. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.analysis import health
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import KindAnalysis
from orchestrator.config.naming import plural
from orchestrator.figures.comparisons import Standing
from orchestrator.figures.health import HealthReport
from orchestrator.figures.report import CellCounts, RunVerdict
from orchestrator.state.archive import Archive
from orchestrator.stats.siblings import SiblingVerdict
from protocol.exit_codes import MEANING, ExitCode

TAINTED: Final = "tainted: faults were injected on purpose, so nothing here is a measurement"
_WORDS: Final = {ExitCode.PASSED: "complete", ExitCode.HARDWARE: "hardware fault"}


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
    """The exit code and its reasons. A straggler is reported and changes no exit code; nor does what does not fit.

    found: additions of the kind of run. short: words for cells with launches to come.
    """
    reasons = [*found.incomplete, *([TAINTED] if archive.stored.configuration.tainted else [])]
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
    reasons.extend(found.unknown)
    broken = archive.finished is not None and archive.finished.broken
    code = ExitCode.INTERNAL if broken else ExitCode.INCOMPLETE if reasons else ExitCode.PASSED
    faults = [*health.faults(judged), *found.faults]
    if faults:
        code = code if broken else ExitCode.HARDWARE  # a broken run gives no verdict, but hides no fault
        reasons = [*faults, *reasons]
    if not reasons:
        reasons.append(f"every planned cell ({counts.planned}) is accounted for")
        reasons.extend(_remarks(counts))
        reasons.extend(health.warnings(judged))
        reasons.extend(found.warnings)
    reasons.extend(
        f"{archive.devices[one.gpu_uuid].label} is a {one.verdict}: {one.why}; probably {one.reason}"
        for one in slow
        if one.verdict is SiblingVerdict.STRAGGLER
    )
    if more := sum(one.launches_added for one in slow):
        reasons.append(f"{plural(more, 'launch was', 'launches were')} added because a GPU was SUSPECT")
    word = _WORDS.get(code, "incomplete")
    return RunVerdict(exit_code=int(code), word=word, meaning=MEANING[code], reasons=tuple(reasons))


def _without_end(archive: Archive, evidence: Evidence) -> Iterator[str]:
    """Why a run without a recorded end is incomplete."""
    if evidence.goes_on:
        yield "the run still goes on: this is how far it has come"
    elif archive.finished is None:
        yield "the run did not come to its end: its process died or was killed; `resume` goes on with it"


def _remarks(counts: CellCounts) -> Iterator[str]:
    if smaller := counts.degraded + counts.referred:
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
