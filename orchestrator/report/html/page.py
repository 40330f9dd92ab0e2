"""The report as an HTML page: Report, Timeline ──▶ Page ── size_limit.py ── render.py ──▶ bytes."""

from typing import Final

from orchestrator.figures.report import Report
from orchestrator.figures.timeline import Timeline
from orchestrator.report.chapters import brief, overview
from orchestrator.report.chapters.cells import cells
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.findings import findings
from orchestrator.report.chapters.glance import glance
from orchestrator.report.charts.time import time
from orchestrator.report.charts.timeline import course
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.html.render import Page
from orchestrator.report.html.size_limit import fitted
from orchestrator.report.layout import Layout

FACTS: Final = "Run, stack and command"
FOOTER: Final = (
    "Made by gpubench from what was measured. Every value is in report.json and report.csv, in the folder of the run; "
    "1 MB here is 1024 x 1024 bytes."
)


def to_html(report: Report, timeline: Timeline, layout: Layout = DEFAULT) -> bytes:
    """Return the report as an HTML file, shortened to MOST_BYTES (size_limit.py) if possible."""
    return fitted(page(report, timeline, layout))


def page(report: Report, timeline: Timeline, layout: Layout = DEFAULT) -> Page:
    """Return the page's contents: chapters of the layout, the timeline, failures, and what was not measured."""
    first = (chapter(report) for chapter in layout.html)
    last = (chapter(report) for chapter in (failures, not_measured, time))
    sections = (*first, course(report, timeline, layout), *last)
    found = findings(report, layout)
    reasons = (reason for reason in report.verdict.reasons if not any(reason in one.title for one in found))
    doubtful = brief.warnings(report)
    steps = layout.next_steps(report)
    verdict, heading = overview.verdict(report, layout), overview.heading(report, layout)
    return Page(
        title=f"{verdict.text}: {heading}",
        heading=heading,
        verdict=verdict,
        meaning=overview.meaning(report, layout),
        reasons=tuple(reasons),
        notices=doubtful.summary if doubtful else (),
        elsewhere="report.json",
        facts_title=FACTS,
        facts=(*overview.facts(report, layout), *overview.more_facts(report)),
        findings=tuple(found),
        cards=tuple(overview.cards(report, layout)),
        glance=glance(report),
        steps=steps.summary if steps else (),
        sections=tuple(section for section in sections if section is not None),
        cells=cells(report, layout),
        file_name=f"gpubench-{report.metadata.run_id}-cells.csv",
        footer=FOOTER,
    )
