"""What --strict counts against a run that passed: results below the request, a WARN, a slow GPU."""

from collections.abc import Iterator

from orchestrator.config.naming import plural
from orchestrator.figures.report import Report
from orchestrator.gpu.health.verdict import HealthVerdict


def imperfections(report: Report) -> Iterator[str]:
    """Yield for each kind of imperfection a text: "2 cells not measured at the requested batch size"."""
    cells, health = report.summary.cells, report.health
    verdicts = {health.node.verdict, *(gpu.verdict for gpu in health.gpus)}
    if report.burn_in is not None:
        verdicts.add(report.burn_in.verdict)
    if smaller := cells.degraded + cells.referred + cells.does_not_fit:
        yield f"{plural(smaller, 'cell')} not measured at the requested batch size"
    if HealthVerdict.WARN in verdicts:
        yield "a WARN"
    if any(standing.verdict.is_finding for standing in report.stragglers):
        yield "a slow GPU"
