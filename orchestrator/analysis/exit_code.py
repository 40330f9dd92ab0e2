"""The exit code of a run, and every reason for it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
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
