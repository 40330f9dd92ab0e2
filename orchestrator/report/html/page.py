"""The report as one HTML file: what the page says.

    Report   ┐
             ├── Page (view.py) ── size_limit.py ── render.py ──▶ bytes
    Timeline ┘

The verdict comes first, and every number is written as the text report writes it.
"""

from typing import Final

from orchestrator.config.presets import TRIAGE
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import Timeline
from orchestrator.report.html.cells import cells
from orchestrator.report.html.course import course
from orchestrator.report.html.failures import failures, not_measured
from orchestrator.report.html.other_sections import burn_in, held_against, overhead
from orchestrator.report.html.overview import cards, devices, facts, heading, meaning, notices, score, verdict
from orchestrator.report.html.page_types import Page, Section
from orchestrator.report.html.performance import performance
from orchestrator.report.html.size_limit import fitted
from orchestrator.report.html.spread import spread

FACTS: Final = "Run, stack and command"
FOOTER: Final = (
    "Made by gpubench from what was measured. Every value is in report.json and report.csv, in the folder of the run; "
    "1 MB here is 1024 x 1024 bytes."
)


def to_html(report: Report, timeline: Timeline) -> bytes:
    """The whole page."""
    return fitted(page(report, timeline))


def page(report: Report, timeline: Timeline) -> Page:
    """What the page says. A burn-in has its own chapter first, and none on models that it does not measure.

    A triage begins with its answer, and has a score only where it was asked for.
    """
    asked = report.test_configuration.preset == TRIAGE
    of_models = () if report.burn_in is not None else (performance(report), *(() if asked else (spread(report),)))
    scored = report.burn_in is None and (report.baseline_comparison is not None or not asked)
    chapters: tuple[Section | None, ...] = (
        burn_in(report),
        spread(report) if asked else None,
        Section("score", "Score", charts=(score(report),)) if scored else None,
        held_against(report),
        devices(report),
        *of_models,
        course(report, timeline),
        failures(report),
        not_measured(report),
        overhead(report),
    )
    return Page(
        title=f"{verdict(report).text}: {heading(report)}",
        heading=heading(report),
        verdict=verdict(report),
        meaning=meaning(report),
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
