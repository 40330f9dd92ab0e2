"""Causes of the exit code in a gate's comparison: wrong or slower cells, and cells without a verdict. Pure."""

from collections.abc import Iterator
from typing import Final

from orchestrator.compare import wording
from orchestrator.compare.comparison import FAIL_ON, UNJUDGED, Comparison
from orchestrator.config.naming import plural
from orchestrator.figures.exit_code import Cause, CauseKind
from orchestrator.stats.two_runs import ChangeVerdict

_COUNTING: Final = tuple(verdict for verdict in wording.GRAVEST_FIRST if verdict in FAIL_ON | UNJUDGED)
_NAMED: Final = 3


def causes(comparison: Comparison) -> Iterator[Cause]:
    """Yield causes of the exit code, one for each verdict of cells, for each slower mean, and for what has no partner.

    Causes by verdict come first: wrong, slower and unjudged cells. A mean is over all cells of a workload. Without a
    partner are cells that only the first side has, and devices that the baseline lacks. The kind of a cause is SLOWER,
    also for wrong cells, or UNDECIDED.
    """
    name = wording.naming(comparison)
    for verdict in _COUNTING:
        if named := [name(cell) for cell in comparison.cells if cell.verdict is verdict]:
            yield _cause(verdict, f"{plural(len(named), 'cell')} {verdict}: {_listed(named)}")
    for mean in comparison.means:
        if mean.verdict in FAIL_ON:
            yield _cause(ChangeVerdict.SLOWER, f"all cells together: {wording.mean(mean)}")
    if missing := [name(cell) for cell in comparison.only_before]:
        yield _cause(ChangeVerdict.NOT_COMPARABLE, f"{plural(len(missing), 'cell')} not measured: {_listed(missing)}")
    if comparison.unheld:
        words = f"not in the baseline: {_listed(comparison.unheld)}"
        yield _cause(ChangeVerdict.NOT_COMPARABLE, f"{plural(len(comparison.unheld), 'device')} {words}")
    if not (comparison.cells or comparison.only_before or comparison.unheld):
        yield _cause(ChangeVerdict.NOT_COMPARABLE, wording.NOTHING)


def _cause(verdict: ChangeVerdict, text: str) -> Cause:
    return Cause(kind=CauseKind.SLOWER if verdict in FAIL_ON else CauseKind.UNDECIDED, text=text)


def _listed(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
