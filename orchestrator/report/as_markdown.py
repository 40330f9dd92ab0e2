"""The report as Markdown, for a ticket or a pull request: which chapters it has, and in which order."""

from typing import Final

from orchestrator.figures.report import Report
from orchestrator.report import markdown
from orchestrator.report.chapters.burn_in import burn_in
from orchestrator.report.chapters.cells import listed
from orchestrator.report.chapters.comparisons import baseline, costs, thresholds
from orchestrator.report.chapters.devices import devices
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.overview import ticket
from orchestrator.report.chapters.spread import spread
from orchestrator.report.chapters.stragglers import full_node, stragglers
from orchestrator.report.sections import shown

_SIBLINGS: Final = (
    shown(stragglers, findings=False),
    shown(full_node, tables=("devices",), findings=False),
    listed,
    shown(spread, tables=("spread",), findings=False),
)
_COMPARED: Final = (shown(baseline, tables=()), thresholds, costs)


def to_markdown(report: Report) -> str:
    """The whole text, ending with a newline."""
    middle = (*_SIBLINGS, *_COMPARED) if report.burn_in is None else (burn_in,)
    lines = [*markdown.lines(ticket(report), "##")]
    for chapter in (devices, *middle, failures):
        lines += markdown.lines(chapter(report))
    return "\n".join(lines).rstrip("\n") + "\n"
