"""The report as one HTML file: which chapters it has.

    Report   ┐
             ├── Page ── size_limit.py ── render.py ──▶ bytes
    Timeline ┘

The verdict comes first, and every number is written as the text report writes it.
"""

from functools import partial
from typing import Final

from orchestrator.config.presets import TRIAGE
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import Timeline
from orchestrator.report.chapters import overview
from orchestrator.report.chapters.burn_in import burn_in
from orchestrator.report.chapters.cells import cells
from orchestrator.report.chapters.comparisons import baseline, costs, thresholds
from orchestrator.report.chapters.devices import devices
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.performance import performance
from orchestrator.report.chapters.spread import spread
from orchestrator.report.chapters.stragglers import full_node, stragglers
from orchestrator.report.chapters.time import time
from orchestrator.report.chapters.timeline import course
from orchestrator.report.html.render import Page
from orchestrator.report.html.size_limit import fitted
from orchestrator.report.sections import Chapter, shown

FACTS: Final = "Run, stack and command"
FOOTER: Final = (
    "Made by gpubench from what was measured. Every value is in report.json and report.csv, in the folder of the run; "
    "1 MB here is 1024 x 1024 bytes."
)
_BASELINE: Final = shown(baseline, findings=False)
_SIBLINGS: Final = (
    shown(stragglers, findings=False),
    shown(spread, tables=("percent",)),
    shown(full_node, tables=("devices",), findings=False),
)


def to_html(report: Report, timeline: Timeline) -> bytes:
    """The whole page."""
    return fitted(page(report, timeline))


def page(report: Report, timeline: Timeline) -> Page:
    """What the page says. A burn-in has its own chapter first, and none on models that it does not measure.

    A triage begins with its answer, and has a score only where it was asked for.
    """
    run = (devices, partial(course, timeline=timeline), failures, not_measured, time)
    asked = (thresholds, costs)
    chapters: tuple[Chapter, ...]
    if report.burn_in is not None:
        chapters = (burn_in, *asked, *run)
    elif report.test_configuration.preset == TRIAGE:
        scored = (_BASELINE,) if report.baseline_comparison is not None else ()
        chapters = (*_SIBLINGS, *scored, *asked, devices, performance, *run[1:])
    else:
        chapters = (_BASELINE, *asked, devices, performance, *_SIBLINGS, *run[1:])
    sections = (chapter(report) for chapter in chapters)
    verdict, heading = overview.verdict(report), overview.heading(report)
    return Page(
        title=f"{verdict.text}: {heading}",
        heading=heading,
        verdict=verdict,
        meaning=overview.meaning(report),
        reasons=report.verdict.reasons,
        notices=tuple(overview.notices(report)),
        elsewhere="report.json",
        facts_title=FACTS,
        facts=(*overview.facts(report), *overview.more_facts(report)),
        cards=tuple(overview.cards(report)),
        sections=tuple(section for section in sections if section is not None),
        cells=cells(report),
        file_name=f"gpubench-{report.metadata.run_id}-cells.csv",
        footer=FOOTER,
    )
