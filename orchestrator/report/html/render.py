"""Renders a page as one HTML file that needs no other file.

    Page ──           templates/page.html.j2, autoescaped ┐
      └── plots, as JSON (sanitizing.py) ── static/, vendor/ ───┴──▶ bytes

Each chart has a table with the same data, which is shown without scripts too.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.report.html import sanitizing
from orchestrator.report.sections import Badge, Card, Cells, Finding, Section

ROOM: Final = Path(__file__).parent
SCRIPTS: Final = (
    "vendor/echarts.min.js",
    "static/draw_charts.js",
    "static/over_time.js",
    "static/over_runs.js",
    "static/ratios.js",
    "static/roofline.js",
    "static/drawing.js",
    "static/table.js",
)
"""Files of the scripts that the page contains, in the order in which they run."""


@dataclass(frozen=True)
class Page:
    """The contents of a page: from top to bottom verdict, findings, glance, cards, sections, cells and footer.

    title: of the browser's tab. meaning: text on the exit code. reasons: for the verdict, without those that a finding
    names. notices: warnings about doubtful results or the run. elsewhere: file with what did not fit. facts: (name,
    text). glance: tables and charts of the first screen. file_name: for saving the table of cells. steps: what to do
    next.
    """

    title: str
    heading: str
    verdict: Badge
    meaning: str
    reasons: tuple[str, ...]
    notices: tuple[str, ...]
    elsewhere: str
    facts_title: str
    facts: tuple[tuple[str, str], ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    cells: Cells
    file_name: str
    footer: str
    findings: tuple[Finding, ...] = ()
    glance: Section | None = None
    steps: tuple[str, ...] = ()


def bound(page: Page) -> bytes:
    """Return the page as one HTML file that contains its style, scripts and data."""
    scripts = tuple(_file(name) for name in SCRIPTS)
    sections = (*filter(None, (page.glance,)), *page.sections)
    charts = (chart for section in sections for chart in section.charts)
    plots = {chart.id: {"kind": chart.kind, "says": chart.says, "plots": chart.plots} for chart in charts}
    text = (
        _templates()
        .get_template("page.html.j2")
        .render(
            page=page,
            style=Markup(_file("static/page.css")),  # noqa: S704 - a file of ours
            scripts=[Markup(script) for script in scripts],  # noqa: S704 - files of ours
            policy=sanitizing.policy(scripts),
            plots=sanitizing.data(plots),
        )
    )
    return text.encode()


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=sanitizing.text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["log"] = sanitizing.log
    return made


@cache
def _file(name: str) -> str:
    return (ROOM / name).read_text(encoding="utf-8")
