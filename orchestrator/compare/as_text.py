"""Comparisons for a terminal of 80 columns: the verdict first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.compare.chapters import UNCHANGED, Ended, answer, compared_cells
from orchestrator.compare.comparison import Comparison
from orchestrator.report import text
from orchestrator.stats.two_runs import ChangeVerdict

MOST_ROWS: Final = 15
"""Most rows of the table of cells, unless more cells have changed: those are all shown."""


def to_text(comparisons: Sequence[Comparison], end: Ended) -> str:
    """Render comparisons as text, without a newline at the end. end: verdict and exit code."""
    first = answer(comparisons, end)
    lines = [line for words in (first.title, *first.summary) for line in text.wrap(words, "", "  ")]
    for comparison in comparisons:
        lines += ["", *_section(comparison, several=len(comparisons) > 1)]
        while not lines[-1]:
            lines.pop()
    return "\n".join(line.rstrip() for line in lines)


def _section(comparison: Comparison, *, several: bool) -> Iterator[str]:
    section = compared_cells(comparison, (ChangeVerdict.NOT_COMPARABLE,), several=several)
    yield from (
        text.RULE,
        *text.wrap(section.title),
        *text.wrap(f"{comparison.label_before} -> {comparison.label_after}"),
    )
    yield from (text.RULE, "")
    for words in section.summary:
        yield from (*text.wrap(words, "", "  "), "")
    changed = sum(cell.verdict not in UNCHANGED for cell in comparison.cells)
    tables = tuple(replace(one, most=max(MOST_ROWS, changed)) for one in section.tables)
    rest = replace(section, summary=(), tables=tables)
    yield from (line for part in text.paragraphs(rest, heading=False) for line in part.lines)
