"""Comparisons as sections of a report: the answer, then a section for each comparison."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from orchestrator.compare import wording
from orchestrator.compare.comparison import Comparison
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
_FAILED: Final = Badge("FAILED", Tone.BAD)
_WELL: Final = (ChangeVerdict.FASTER, ChangeVerdict.SAME, ChangeVerdict.NO_CHANGE)
_ROWS: Final = 300
_REMARKS: Final = 20


class Ended(NamedTuple):
    """How a comparison ended: a word, and the meaning of the exit code."""

    badge: Badge
    meaning: str


def ended(code: int, why: str = "") -> Ended:
    """Return how a comparison ends with this code. why: reason for the exit code; empty for its usual meaning."""
    return Ended(_ENDS.get(code, _FAILED), f"Exit code {code:d}: {why or wording.MEANS[ExitCode(code)]}")


def answer(comparisons: Sequence[Comparison], end: Ended) -> Section:
    """Return the verdict with its counts, the worst cell, and the meaning of the exit code."""
    gravest = worst(comparisons)
    lines = (gravest.title if gravest else "", end.meaning)
    title = f"{end.badge}: {wording.headline(comparisons)}"
    return Section("answer", title, tuple(f"{line}." for line in lines if line))


def worst(comparisons: Sequence[Comparison]) -> Finding | None:
    """Return the gravest cell of all comparisons, unless all cells are well."""
    gravest = [(comparison, cell) for comparison in comparisons for cell in wording.ordered(comparison.cells)[:1]]
    if not gravest:
        return None
    of, cell = min(gravest, key=lambda each: (wording.GRAVEST_FIRST.index(each[1].verdict), each[1].ratio or 1.0))
    if cell.verdict in _WELL:
        return None
    where = f", {of.after}" if len(comparisons) > 1 else ""
    name = f"Worst cell: {wording.naming(of)(cell)}{where}"
    return Finding(
        Badge(cell.verdict, TONES[cell.verdict]),
        ": ".join(filter(None, (name, wording.judged(cell)))),
        (wording.remark(cell),),
    )


def compared_cells(comparison: Comparison, without: Collection[ChangeVerdict], *, several: bool) -> Section:
    """Return means, unjudged cells, cells of verdicts not in `without`, and remarks. several: adds the counts."""
    name = wording.naming(comparison)
    shown = [cell for cell in wording.ordered(comparison.cells) if cell.verdict not in without]
    rows = [(name(cell), wording.change(cell), wording.interval(cell), str(cell.verdict)) for cell in shown]
    columns = (*texts("Cell"), *numbers("Change", "95% interval"), *texts("Verdict"))
    margins = dict.fromkeys(sorted(cell.margin_percent for cell in shown if cell.margin_percent is not None))
    legend = f"{wording.LEGEND} Margin: {', '.join(f'{margin:.3g}%' for margin in margins)}."
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
