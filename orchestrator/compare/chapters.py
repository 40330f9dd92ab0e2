"""A comparison as a section of a report."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from orchestrator.compare import wording
from orchestrator.compare.comparison import Comparison
from orchestrator.report.numbers import number
from orchestrator.report.sections import Finding, Section, numbers, table, texts
from orchestrator.stats.two_runs import ChangeVerdict

_ROWS: Final = 300
_REMARKS: Final = 20
_REMARKED: Final = (ChangeVerdict.SLOWER, ChangeVerdict.INCONCLUSIVE, ChangeVerdict.NOT_COMPARABLE)


def comparison(one: Comparison, without: Collection[ChangeVerdict]) -> Section:
    """Return the cells of all verdicts except `without`, and the reasons for missing verdicts."""
    name = wording.naming(one)
    shown = [cell for cell in wording.ordered(one.cells) if cell.verdict not in without]
    rows = [(name(cell), wording.ratio(cell), wording.interval(cell), str(cell.verdict)) for cell in shown]
    columns = (*texts("Cell"), *numbers("Speed", "95% interval"), *texts("Verdict"))
    margins = sorted({cell.margin_percent for cell in shown if cell.margin_percent is not None})
    legend = f"{wording.LEGEND} Margin: {', '.join(number(margin) for margin in margins)} percent."
    remarks = (
        *one.notes,  # of the margin: few, and never cut off
        *wording.apart(one),
        *(remark for verdict in _REMARKED for remark in wording.remarks(one, verdict)),
    )
    return Section(
        "comparison",
        one.title,
        tables=(replace(table("", columns, rows, legend, elsewhere="--format json"), most=_ROWS),),
        findings=(Finding(None, "", remarks, listed=True, most=_REMARKS),),
        notes=(f"{wording.headline(one)}.",),
    )
