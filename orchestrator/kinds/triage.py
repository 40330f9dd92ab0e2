"""The triage: a benchmark whose reports begin with the verdicts on slow GPUs."""

from typing import Final

from orchestrator.engine.kind import Kind
from orchestrator.report.chapters import stragglers
from orchestrator.report.chapters.brief import each_gpu, limits, next_steps, probes, warnings
from orchestrator.report.chapters.comparisons import baseline, costs, thresholds
from orchestrator.report.chapters.devices import devices
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.health import health
from orchestrator.report.charts.performance import performance
from orchestrator.report.charts.spread import spread
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.layout import Layout
from orchestrator.report.sections import shown

TRIAGE: Final = Kind(
    name="triage",
    layout=Layout(
        text=(
            shown(stragglers.answer, tables=()),
            shown(stragglers.full_node, tables=("means",)),
            shown(spread, tables=("spread", "differing")),
            health,
            failures,
            not_measured,
            thresholds,
            shown(baseline, tables=()),
            costs,
        ),
        brief=(each_gpu, limits, warnings, probes),
        next_steps=next_steps,
        markdown=(shown(stragglers.answer, findings=False), *DEFAULT.markdown[1:]),
        html=(
            shown(stragglers.answer, findings=False),
            shown(spread, tables=("percent",)),
            shown(stragglers.full_node, tables=("devices",), findings=False),
            shown(baseline, findings=False),
            thresholds,
            costs,
            devices,
            performance,
        ),
    ),
)
