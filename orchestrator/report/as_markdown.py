"""The report as Markdown for a ticket or a pull request: the verdict first, failures last."""

from orchestrator.figures.report import Report
from orchestrator.report import markdown
from orchestrator.report.chapters.devices import devices
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.overview import ticket
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.layout import Layout


def to_markdown(report: Report, layout: Layout = DEFAULT) -> str:
    """Return the report as Markdown, ending with a newline."""
    lines = [*markdown.lines(ticket(report, layout), "##")]
    for chapter in (devices, *layout.markdown, failures):
        lines += markdown.lines(chapter(report))
    return "\n".join(lines).rstrip("\n") + "\n"
