"""What went wrong, and what was left out: the root cause first, each failed launch with its evidence."""

from collections.abc import Iterator
from typing import Final

from orchestrator.analysis.outcomes import Status
from orchestrator.config.naming import plural
from orchestrator.figures.report import FailureReport, Report
from orchestrator.report.html.cells import badge
from orchestrator.report.html.page_types import Badge, Finding, Section, Tone
from orchestrator.report.text_exclusions import dropped_by_reason, dropped_lines, left_out
from orchestrator.report.text_failures import FACTS, FILES, MEMORY, gib, kind, out_of_time, root, what
from orchestrator.state.failure_policy import POLICY
from protocol.failure import Category

MOST_FAILURES: Final = 100
MOST_LINES: Final = 40
"""Of one log."""


def failures(report: Report) -> Section:
    """Every launch without a result, up to MOST_FAILURES, the one that explains most before the others."""
    first = root(report.failures)
    ordered = [] if first is None else [first]
    ordered += [one for one in report.failures if one is not first]
    findings = tuple(_finding(one, report, root_cause=one is first) for one in ordered[:MOST_FAILURES])
    more = len(ordered) - MOST_FAILURES
    ended = sum(map(out_of_time, ordered))
    words = [f"{plural(len(ordered), 'launch', 'launches')} without a result."]
    words += [f"Ended by the time limit, which is no failure: {ended}."] if ended else []
    words += [f"{more} more are in report.json."] if more > 0 else []
    return Section(
        "failures",
        "Launches without a result",
        tuple(words) if ordered else ("Every launch has its result.",),
        findings=findings,
    )


def _finding(one: FailureReport, report: Report, *, root_cause: bool) -> Finding:
    mark = Badge("root cause", Tone.BAD) if root_cause else badge(one.status)
    return Finding(
        mark,
        f"{what(one, report)}, attempt {one.attempt}: {kind(one)}",
        tuple(_lines(one, advice=root_cause)),
        tuple(_logs(one)),
        opened=root_cause,
    )


def _lines(one: FailureReport, *, advice: bool) -> Iterator[str]:
    yield one.message
    for name, words in FACTS.items():
        if name in one.evidence:
            yield f"{words}: {one.evidence[name]}"
    memory = [words.format(gib(one.evidence[name])) for name, words in MEMORY.items() if name in one.evidence]
    if memory:
        yield f"Memory: {', '.join(memory)}"
    if advice and one.category is not None:
        yield f"What to do: {POLICY[Category(one.category)].advice}"
    yield f"At {one.at}. In the end the cell was: {one.status.replace('_', ' ')}. Logs: {one.folder}"


def _logs(one: FailureReport) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, (words, shown) in FILES.items():
        lines = [line for line in one.evidence.get(name, "").splitlines() if line.strip()]
        if lines:
            from_the_end = shown.start is not None  # more lines than the text report has, of the same end
            yield words, tuple(lines[-MOST_LINES:] if from_the_end else lines[:MOST_LINES])


def not_measured(report: Report) -> Section | None:
    """What was asked for and not attempted; None where everything was."""
    dropped = [entry for entry in report.cells if entry.status is Status.DROPPED]
    if not report.left_out and not dropped:
        return None
    findings = [
        Finding(Badge("dropped", Tone.QUIET), why, tuple(dropped_lines(cells, report)), opened=True)
        for why, cells in dropped_by_reason(dropped).items()
    ]
    return Section("left-out", "Not measured", tuple(left_out(report)), findings=tuple(findings))
