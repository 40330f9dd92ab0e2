"""The most important findings of a run, for the top of the HTML page."""

from collections.abc import Sequence
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.report.chapters import brief
from orchestrator.report.layout import Layout
from orchestrator.report.sections import Badge, Finding, Tone
from protocol.exit_codes import ExitCode

SHOWN: Final = 3


def findings(report: Report, layout: Layout) -> Sequence[Finding]:
    """Return up to three findings: faulty and slow GPUs, then the causes of the exit code, then GPUs in doubt.

    The speed compared with the baseline follows, if the run has one.
    """
    of_gpus = [finding for chapter in layout.brief if (section := chapter(report)) for finding in section.findings]
    by_tone = {tone: [one for one in of_gpus if one.badge and one.badge.tone is tone] for tone in (Tone.BAD, Tone.WARN)}
    causes = report.verdict.reasons[:1] if report.verdict.exit_code != ExitCode.PASSED and not by_tone[Tone.BAD] else ()
    found = (*by_tone[Tone.BAD], *(Finding(Badge("worst finding", Tone.BAD), why) for why in causes))
    compared = tuple(brief.speed_of_baseline(report))
    baseline = (Finding(Badge("baseline", Tone.QUIET), compared[0], compared[1:]),) if compared else ()
    return (*(*found, *by_tone[Tone.WARN])[:SHOWN], *baseline)
