"""The report as one HTML file: what the page says.

    Report   ┐
             ├── Page (view.py) ── binding.py ──▶ bytes
    Timeline ┘

The verdict comes first, and every number is written as the text report writes it.
"""

from typing import Final

from orchestrator.report.html.binding import bound
from orchestrator.report.html.cells import cells
from orchestrator.report.html.course import course
from orchestrator.report.html.failures import failures, not_measured
from orchestrator.report.html.further import burn_in, held_against, overhead
from orchestrator.report.html.overview import cards, devices, facts, heading, notices, score, verdict
from orchestrator.report.html.performance import performance
from orchestrator.report.html.spread import spread
from orchestrator.report.html.view import Page, Section
from orchestrator.report.model import Report
from orchestrator.report.timeline import Timeline

FACTS: Final = "Run, stack and command"
FOOTER: Final = (
    "Made by gpubench from what was measured. Every value is in report.json and report.csv, in the folder of the run; "
    "1 MB here is 1024 x 1024 bytes."
)


def to_html(report: Report, timeline: Timeline) -> bytes:
    """The whole page."""
    return bound(page(report, timeline))


def page(report: Report, timeline: Timeline) -> Page:
    """What the page says. A burn-in has its own chapter first, and none on models that it does not measure."""
    of_models = () if report.burn_in is not None else (performance(report), spread(report))
    chapters: tuple[Section | None, ...] = (
        burn_in(report),
        Section("score", "Score", charts=(score(report),)) if report.burn_in is None else None,
        held_against(report),
        devices(report),
        *of_models,
        course(report, timeline),
        failures(report),
        not_measured(report),
        overhead(report),
    )
    return Page(
        title=f"{report.verdict.word}: {heading(report)}",
        heading=heading(report),
        verdict=verdict(report),
        meaning=f"Exit code {report.verdict.exit_code}: {report.verdict.meaning}",
        reasons=report.verdict.reasons,
        notices=tuple(notices(report)),
        elsewhere="report.json",
        facts_title=FACTS,
        facts=tuple(facts(report)),
        cards=tuple(cards(report)),
        sections=tuple(chapter for chapter in chapters if chapter is not None),
        cells=cells(report),
        file_name=f"gpubench-{report.metadata.run_id}-cells.csv",
        footer=FOOTER,
    )
