"""Comparisons for a terminal of 80 columns: what changed, what matters first, the verdict last."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.compare import wording
from orchestrator.compare.comparison import Comparison
from orchestrator.report import layout
from orchestrator.report.numbers import number
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.exit_codes import ExitCode

_HEAD: Final = ("Cell", "Speed", "95% interval", "Verdict")
_ROWS: Final = 300
_REMARKS: Final = 20
LEGEND: Final = "Speed: of the second over the first, above 1 is faster."


def to_text(comparisons: Sequence[Comparison], code: ExitCode) -> str:
    """The whole text, without a newline at the end."""
    lines = [line.rstrip() for one in comparisons for line in _one(one)]
    return "\n".join([*lines, f"Exit code {int(code)}: {MEANS[code]}"])


MEANS: Final = {
    ExitCode.PASSED: "no verdict that fails the comparison",
    ExitCode.MISSED: "a verdict that fails the comparison",
    ExitCode.INCOMPLETE: "a comparison with nothing comparable, or conclusive",
}


def _one(one: Comparison) -> Iterator[str]:
    yield layout.RULE
    yield from layout.wrap(one.title)
    yield from layout.wrap(f"{one.label_before} -> {one.label_after}")
    yield layout.RULE
    yield ""
    shown = [cell for cell in wording.ordered(one.cells) if cell.verdict is not ChangeVerdict.NOT_COMPARABLE]
    if shown:
        name = wording.naming(one)
        rows = [
            (
                name(cell),
                wording.ratio(cell),
                wording.interval(cell),
                str(cell.verdict),
            )
            for cell in shown[:_ROWS]
        ]
        yield from layout.table(_HEAD, rows)
        if len(shown) > _ROWS:
            yield f"... and {len(shown) - _ROWS} more, which --format json has"
        yield from layout.wrap(LEGEND)
        margins = sorted({cell.margin_percent for cell in shown if cell.margin_percent is not None})
        yield from layout.wrap(f"Margin: {', '.join(number(margin) for margin in margins)} percent.")
        yield ""
    notes = [
        *one.notes,  # of the margin: few, and never cut off
        *wording.apart(one),
        *wording.remarks(one, ChangeVerdict.SLOWER),
        *wording.remarks(one, ChangeVerdict.INCONCLUSIVE),
        *wording.remarks(one, ChangeVerdict.NOT_COMPARABLE),
    ]
    if notes:
        yield from layout.bullets(notes, _REMARKS)
        yield ""
    yield from layout.wrap(wording.headline(one))
    yield ""
