"""Comparisons for a terminal of 80 columns."""

from collections.abc import Iterator, Sequence

from orchestrator.compare.chapters import comparison
from orchestrator.compare.comparison import Comparison
from orchestrator.compare.wording import MEANS
from orchestrator.report import text
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.exit_codes import ExitCode


def to_text(comparisons: Sequence[Comparison], code: ExitCode) -> str:
    """Render comparisons as text, without a newline at the end."""
    lines = [line.rstrip() for one in comparisons for line in _one(one)]
    return "\n".join([*lines, f"Exit code {int(code)}: {MEANS[code]}"])


def _one(one: Comparison) -> Iterator[str]:
    section = comparison(one, (ChangeVerdict.NOT_COMPARABLE,))
    yield from (text.RULE, *text.wrap(section.title), *text.wrap(f"{one.label_before} -> {one.label_after}"))
    yield from (text.RULE, "")
    yield from (line for part in text.paragraphs(section, heading=False) for line in part.lines)
