"""Comparisons for a pull request: a headline, a table of what changed, the rest as numbers."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.compare import wording
from orchestrator.compare.comparison import ComparedCell, Comparison
from orchestrator.config.naming import plural
from orchestrator.report.markup import escaped
from orchestrator.stats.two_runs import ChangeVerdict

_MOST_ROWS: Final = 25


def to_markdown(comparisons: Sequence[Comparison]) -> str:
    """The whole text, without a newline at the end."""
    return "\n".join(line for one in comparisons for line in _one(one)).rstrip("\n")


def _one(one: Comparison) -> Iterator[str]:
    yield f"### {escaped(one.title)}: {escaped(_word(one))}"
    yield ""
    yield f"Runs: {escaped(one.label_before)} -> {escaped(one.label_after)}. {escaped(wording.headline(one))}."
    yield ""
    told = [
        cell
        for cell in wording.ordered(one.cells)
        if cell.verdict not in (ChangeVerdict.SAME, ChangeVerdict.NOT_COMPARABLE)
    ]
    if told:
        yield "| cell | speed | 95 % interval | verdict |"
        yield "|---|---|---|---|"
        name = wording.naming(one)
        yield from (_row(cell, name(cell)) for cell in told[:_MOST_ROWS])
        if len(told) > _MOST_ROWS:
            yield f"| and {len(told) - _MOST_ROWS} more | | | |"
        yield ""
    for words in (*wording.remarks(one, ChangeVerdict.NOT_COMPARABLE), *wording.apart(one), *one.notes):
        yield f"- {escaped(words)}"
    yield ""


def _word(one: Comparison) -> str:
    """The comparison in a word, by the gravest verdict that says something."""
    for verdict in (ChangeVerdict.SLOWER, ChangeVerdict.FASTER, ChangeVerdict.SAME, ChangeVerdict.INCONCLUSIVE):
        if number := one.counts.get(verdict):
            return f"{number} of {plural(sum(one.counts.values()), 'cell')} {verdict}"
    return "nothing compares"


def _row(cell: ComparedCell, name: str) -> str:
    columns = (
        escaped(name),
        wording.ratio(cell),
        wording.interval(cell),
        escaped(f"{cell.verdict} ({words})" if (words := wording.remark(cell)) else str(cell.verdict)),
    )
    return f"| {' | '.join(columns)} |"
