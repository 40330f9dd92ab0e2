"""Comparisons for a terminal of 80 columns: the verdict last."""

from collections.abc import Sequence

from orchestrator.compare.chapters import comparison
from orchestrator.compare.comparison import Comparison
from orchestrator.compare.wording import MEANS
from orchestrator.report import text
from orchestrator.stats.two_runs import Verdict
from protocol.exit_codes import ExitCode


def to_text(comparisons: Sequence[Comparison], code: ExitCode) -> str:
    """The whole text, without a newline at the end."""
    sections = (comparison(one, (Verdict.NOT_COMPARABLE,)) for one in comparisons)
    lines = [line.rstrip() for section in sections for line in text.lines(section)]
    return "\n".join([*lines, f"Exit code {int(code)}: {MEANS[code]}"])
