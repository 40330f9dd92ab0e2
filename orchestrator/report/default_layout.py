"""The layout of the reports of a benchmark (an ordinary run): which chapters each format has, in order."""

from typing import Final

from orchestrator.report.chapters.batch_scans import batch_scans
from orchestrator.report.chapters.best import best
from orchestrator.report.chapters.brief import gpus, limits, next_steps, probes, warnings
from orchestrator.report.chapters.cells import listed
from orchestrator.report.chapters.comparisons import baseline, costs, thresholds
from orchestrator.report.chapters.compiled import briefly as compiled_briefly
from orchestrator.report.chapters.compiled import compiled
from orchestrator.report.chapters.devices import described, devices
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.health import health
from orchestrator.report.chapters.models import models
from orchestrator.report.chapters.overview import summary
from orchestrator.report.chapters.power import power
from orchestrator.report.chapters.stragglers import full_node, stragglers
from orchestrator.report.charts.performance import performance
from orchestrator.report.charts.spread import spread
from orchestrator.report.charts.time import time
from orchestrator.report.layout import Layout
from orchestrator.report.sections import shown

_SCORE: Final = shown(baseline, tables=())

DEFAULT: Final = Layout(
    text=(
        described,
        models,
        compiled,
        batch_scans,
        shown(stragglers, tables=()),
        shown(full_node, tables=("means",)),
        shown(spread, tables=("spread", "differing")),
        health,
        failures,
        not_measured,
        time,
        thresholds,
        _SCORE,
        costs,
        summary,
    ),
    brief=(gpus, best, compiled_briefly, limits, warnings, probes),
    next_steps=next_steps,
    markdown=(
        shown(stragglers, findings=False),
        shown(full_node, tables=("devices",), findings=False),
        listed,
        compiled,
        power,
        shown(spread, tables=("spread",), findings=False),
        _SCORE,
        thresholds,
        costs,
    ),
    html=(
        shown(stragglers, findings=False),
        shown(baseline, findings=False),
        thresholds,
        costs,
        performance,
        compiled,
        power,
        shown(spread, tables=("percent",)),
        shown(full_node, tables=("devices",), findings=False),
        devices,
    ),
)
