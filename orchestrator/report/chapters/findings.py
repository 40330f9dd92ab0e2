"""The most important findings of a run, for the top of the HTML page."""

from collections.abc import Sequence
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.report.chapters import brief
from orchestrator.report.chapters.stragglers import SLOW
from orchestrator.report.layout import Layout
from orchestrator.report.sections import Badge, Finding, Tone
from protocol.exit_codes import ExitCode

SHOWN: Final = 3


def findings(report: Report, layout: Layout) -> Sequence[Finding]:
    """Return the most important findings: at most three problems, then healthy GPUs, then the baseline comparison.

    Problems are faulty GPUs (or a faulty machine), slow GPUs, the first reason for the exit code, and doubtful GPUs, in
    this order. The reason appears only if the run did not pass, nothing is faulty or slow, and layout.judges_gpus is
    False. Healthy GPUs appear only next to a problem, and the comparison only if the run was compared with a baseline.
    """
    of_gpus = [finding for chapter in layout.brief if (section := chapter(report)) for finding in section.findings]
    faulty = [one for one in of_gpus if one.badge and one.badge.tone is Tone.BAD]
    slow = [one for one in of_gpus if one.badge and one.badge.text in SLOW]
    doubtful = [one for one in of_gpus if one.badge and one.badge.tone in {Tone.WARN, Tone.PLAIN} and one not in slow]
    explained = faulty or slow or layout.judges_gpus or report.verdict.exit_code == ExitCode.PASSED
    causes = () if explained else report.verdict.reasons[:1]
    found = (*faulty, *slow, *(Finding(Badge("worst finding", Tone.BAD), why) for why in causes), *doubtful)
    good = [one for one in of_gpus if one.badge and one.badge.tone is Tone.GOOD] if found else ()
    compared = tuple(brief.speed_of_baseline(report))
    baseline = (Finding(Badge("baseline", Tone.QUIET), compared[0], compared[1:]),) if compared else ()
    return (*found[:SHOWN], *good, *baseline)
