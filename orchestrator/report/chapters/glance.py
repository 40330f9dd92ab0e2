"""Tables and charts of the HTML page's first screen: best configurations of each model, and GPUs compared."""

from dataclasses import replace

from orchestrator.figures.report import Report
from orchestrator.report.chapters.best import best
from orchestrator.report.chapters.brief import gpus
from orchestrator.report.charts.siblings import against_each_other
from orchestrator.report.sections import Section, drawn


def glance(report: Report) -> Section | None:
    """Return the tables and charts of the first screen; None if the run measured no model and cannot compare GPUs."""
    charts, tables = drawn(against_each_other(report))
    found = best(report)
    models = (
        [
            replace(table, caption=f"Best configurations{f': {table.caption}' if table.caption else ''}")
            for table in found.tables
        ]
        if found
        else []
    )
    alike = gpus(report)
    summary = (
        *(f"GPUs {line}" for line in (alike.notes if alike else ())),
        *(f"Best {line}" for line in (found.summary if found else ())),
    )
    shown = charts or models
    return Section("glance", "At a glance", summary, charts, (*models, *tables)) if shown else None
