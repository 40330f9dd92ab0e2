"""Comparisons as sections of a report: the answer, then a section for each. A cell is a model in one configuration."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from orchestrator.compare import wording
from orchestrator.compare.comparison import ComparedCell, Comparison
from orchestrator.report.sections import Badge, Finding, Section, Tone, numbers, table, texts
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.exit_codes import ExitCode

TONES: Final = {
    ChangeVerdict.WRONG: Tone.BAD,
    ChangeVerdict.SLOWER: Tone.BAD,
    ChangeVerdict.PROBABLY_SLOWER: Tone.BAD,
    ChangeVerdict.FASTER: Tone.GOOD,
    ChangeVerdict.INCONCLUSIVE: Tone.WARN,
    ChangeVerdict.SAME: Tone.PLAIN,
    ChangeVerdict.NO_CHANGE: Tone.PLAIN,
    ChangeVerdict.NOT_COMPARABLE: Tone.QUIET,
}
_ENDS: Final[Mapping[int, Badge]] = {
    ExitCode.PASSED: Badge("PASSED", Tone.GOOD),
    ExitCode.INCOMPLETE: Badge("INCOMPLETE", Tone.WARN),
}
_SLOWER: Final = Badge(ChangeVerdict.SLOWER, TONES[ChangeVerdict.SLOWER])
_FAILED: Final = Badge("FAILED", Tone.BAD)
_REGRESSION: Final = Badge("REGRESSION", Tone.BAD)
UNCHANGED: Final = (ChangeVerdict.SAME, ChangeVerdict.NO_CHANGE)
_ROWS: Final = 300
_REMARKS: Final = 20


class Ended(NamedTuple):
    """How a comparison ended. badge: verdict in a word. meaning: "Exit code 1: ...". step: "Next: ...", or ""."""

    badge: Badge
    meaning: str
    step: str


def ended(code: int, why: str = "", step: str = "", *, regression: bool = False) -> Ended:
    """Return how a comparison ends with this exit code. why: reason for it, or "". step: what to do next, or "".

    regression: whether slower or wrong cells fail it, and not something else, such as missing cells.
    """
    meaning = f"Exit code {code:d}: {why or wording.MEANS[ExitCode(code)]}"
    return Ended(_ENDS.get(code, _REGRESSION if regression else _FAILED), meaning, step and f"Next: {step}")


def answer(comparisons: Sequence[Comparison], end: Ended) -> Section:
    """Return the first section: verdict with counts, worst and slower cells, meaning of the exit code, next step."""
    gravest = worst(comparisons)
    slower = slower_cells(comparisons)
    first = () if gravest is None or (slower and gravest.badge == _SLOWER) else (gravest.title,)
    changed = (
        f"Changed between the runs: {comparisons[0].title}"
        if slower and len(comparisons) == 1 and comparisons[0].changes
        else ""
    )
    hidden = wording.excluded([cell for one in comparisons for cell in one.cells])
    unseen = f"{ChangeVerdict.NO_CHANGE}: {hidden}, a smaller one is not" if hidden else ""
    lines = (*first, changed, *slower, unseen, end.meaning, end.step)
    title = f"{end.badge}: {wording.headline(comparisons)}"
    return Section("answer", title, tuple(f"{line}." for line in lines if line))


def slower_cells(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Return a line with up to five SLOWER cells and the number of others, for each comparison that has any."""
    lines = ((comparison, wording.slower(comparison)) for comparison in comparisons)
    several = len(comparisons) > 1
    return tuple(f"{comparison.after}: {words}" if several else words for comparison, words in lines if words)


def worst(comparisons: Sequence[Comparison]) -> Finding | None:
    """Return a finding on the cell with the gravest verdict; None if each cell is unchanged or at least as fast."""
    gravest = [
        (comparison, cell)
        for comparison in comparisons
        for cell in wording.ordered(comparison.cells)
        if not _is_well(cell)
    ]
    if not gravest:
        return None
    of, cell = min(gravest, key=lambda each: (wording.GRAVEST_FIRST.index(each[1].verdict), each[1].ratio or 1.0))
    where = f", {of.after}" if len(comparisons) > 1 else ""
    lone = cell.verdict is ChangeVerdict.NOT_COMPARABLE and cell.ratio is None
    name = f"{'Not compared' if lone else 'Worst cell'}: {wording.naming(of)(cell)}{where}"
    return Finding(
        Badge(cell.verdict, TONES[cell.verdict]),
        ": ".join(filter(None, (name, wording.judged(cell)))),
        (wording.remark(cell),),
    )


def _is_well(cell: ComparedCell) -> bool:
    no_loss = cell.verdict is not ChangeVerdict.WRONG and cell.ratio is not None and cell.ratio >= 1
    return no_loss or cell.verdict in (ChangeVerdict.FASTER, *UNCHANGED)


def compared_cells(comparison: Comparison, without: Collection[ChangeVerdict], *, several: bool) -> Section:
    """Return the section of a comparison, with a table of its cells. without: verdicts whose cells are omitted.

    several: whether the report has several comparisons. Then the section begins with the number of cells by verdict.
    """
    name = wording.naming(comparison)
    shown = [cell for cell in wording.ordered(comparison.cells) if cell.verdict not in without]
    rows = [(name(cell), wording.change(cell), wording.interval(cell), str(cell.verdict)) for cell in shown]
    columns = (*texts("Cell"), *numbers("Change", "95% interval"), *texts("Verdict"))
    margins = dict.fromkeys(sorted(cell.margin_percent for cell in shown if cell.margin_percent is not None))
    by = ", by the kind of cell" if len(margins) > 1 else ""
    legend = f"{wording.LEGEND} Margin: {' or '.join(f'{margin:.3g}%' for margin in margins)}{by}."
    remarks = (
        *comparison.notes,  # of the margin: few, and never cut off
        *wording.new(comparison),
        *(remark for verdict in wording.GRAVEST_FIRST for remark in wording.remarks(comparison, verdict)),
    )
    first = (
        wording.headline([comparison]) if several else "",
        wording.means(comparison),
        *wording.unjudged(comparison),
    )
    return Section(
        "comparison",
        comparison.title,
        tuple(f"{words}." for words in first if words),
        tables=(replace(table("", columns, rows, legend, elsewhere="--format json"), most=_ROWS),),
        findings=(Finding(None, "", remarks, listed=True, most=_REMARKS),),
    )
