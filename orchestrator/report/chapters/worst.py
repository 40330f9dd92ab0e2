"""The worst finding of a run: one statement, with what to do about it."""

from collections.abc import Iterator

from orchestrator.figures.report import Report
from orchestrator.report.chapters import brief
from orchestrator.report.layout import Layout
from orchestrator.report.sections import Badge, Finding, Tone
from protocol.exit_codes import ExitCode


def worst(report: Report, layout: Layout) -> Finding | None:
    """Return the worst finding, or None.

    In order: a faulty or slow GPU, a cause of the exit code, a doubtful GPU, doubtful results.
    """
    return next(_found(report, layout), None)


def _found(report: Report, layout: Layout) -> Iterator[Finding]:
    of_gpus = [finding for chapter in layout.brief if (section := chapter(report)) for finding in section.findings]
    yield from (one for one in of_gpus if one.badge and one.badge.tone is Tone.BAD)
    if report.verdict.exit_code != ExitCode.PASSED:
        yield from (Finding(Badge("worst finding", Tone.BAD), reason) for reason in report.verdict.reasons[:1])
    yield from (one for one in of_gpus if one.badge and one.badge.tone is Tone.WARN)
    doubts = tuple(brief.doubts(report))
    if doubts:
        yield Finding(Badge("warning", Tone.WARN), doubts[0], doubts[1:])
