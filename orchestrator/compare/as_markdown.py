"""Comparisons as Markdown for a pull request. The table lacks cells that are unchanged or NOT COMPARABLE."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from orchestrator.compare.chapters import Ended, answer, compared_cells
from orchestrator.compare.comparison import Comparison
from orchestrator.report import markdown
from orchestrator.report.sections import Section, shortened
from orchestrator.stats.two_runs import ChangeVerdict

_MOST_ROWS: Final = 25


def to_markdown(comparisons: Sequence[Comparison], end: Ended) -> str:
    """Render comparisons as Markdown, without a newline at the end. end: verdict and exit code."""
    first = answer(comparisons, end)
    lines = [*markdown.lines(replace(first, summary=(" ".join(first.summary),)), "###")]
    for comparison in comparisons:
        lines += markdown.lines(_section(comparison, several=len(comparisons) > 1), "####")
    return "\n".join(lines).rstrip("\n")


def _section(comparison: Comparison, *, several: bool) -> Section:
    without = (ChangeVerdict.SAME, ChangeVerdict.NO_CHANGE, ChangeVerdict.NOT_COMPARABLE)
    section = compared_cells(comparison, without, several=several)
    tables = tuple(shortened(table, _MOST_ROWS) for table in section.tables)
    runs = f"Runs: {comparison.label_before} -> {comparison.label_after}."
    return replace(section, summary=(*section.summary, runs), tables=tables)
