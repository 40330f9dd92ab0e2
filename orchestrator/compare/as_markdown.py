"""Comparisons as Markdown for a pull request: a headline, a table of what changed, the rest as numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from orchestrator.compare.chapters import comparison
from orchestrator.compare.comparison import Comparison
from orchestrator.config.naming import plural
from orchestrator.report import markdown
from orchestrator.report.sections import Section, shortened
from orchestrator.stats.two_runs import ChangeVerdict

_MOST_ROWS: Final = 25


def to_markdown(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons as Markdown, without a newline at the end."""
    lines = [line for one in comparisons for line in markdown.lines(_section(one), "###")]
    return "\n".join(lines).rstrip("\n")


def _section(one: Comparison) -> Section:
    section = comparison(one, (ChangeVerdict.SAME, ChangeVerdict.NOT_COMPARABLE))
    tables = tuple(shortened(table, _MOST_ROWS) for table in section.tables)
    runs = f"Runs: {one.label_before} -> {one.label_after}."
    return replace(section, title=f"{one.title}: {_word(one)}", summary=(runs,), tables=tables)


def _word(one: Comparison) -> str:
    for verdict in (ChangeVerdict.SLOWER, ChangeVerdict.FASTER, ChangeVerdict.SAME, ChangeVerdict.INCONCLUSIVE):
        if number := one.counts.get(verdict):
            return f"{number} of {plural(sum(one.counts.values()), 'cell')} {verdict}"
    return "nothing compares"
