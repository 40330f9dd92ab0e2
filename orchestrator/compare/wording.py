"""Texts of a comparison for all formats: headlines, changes, remarks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from orchestrator.compare.comparison import UNJUDGED, ComparedCell, Comparison, LoneCell, Mean
from orchestrator.config.naming import plural
from orchestrator.report.numbers import difference
from orchestrator.stats.two_runs import MOST_LAUNCHES, ChangeVerdict
from protocol.exit_codes import ExitCode

GRAVEST_FIRST: Final = (
    ChangeVerdict.WRONG,
    ChangeVerdict.SLOWER,
    ChangeVerdict.PROBABLY_SLOWER,
    ChangeVerdict.INCONCLUSIVE,
    ChangeVerdict.NOT_COMPARABLE,
    ChangeVerdict.FASTER,
    ChangeVerdict.NO_CHANGE,
    ChangeVerdict.SAME,
)
_MOST_LONE: Final = 10
LEGEND: Final = "Change of the speed since the first run; above 0% is faster."
MEANS: Final = {
    ExitCode.PASSED: "every cell was judged, and no verdict fails the comparison",
    ExitCode.MISSED: "a verdict fails the comparison (--fail-on)",
    ExitCode.INCOMPLETE: "a cell could not be judged, or is missing",
}
NOTHING: Final = "no cell was measured in both runs"


def ordered(cells: Sequence[ComparedCell]) -> list[ComparedCell]:
    """Sort by verdict, gravest first, then by distance of the ratio from one."""
    return sorted(
        cells, key=lambda cell: (GRAVEST_FIRST.index(cell.verdict), -abs((cell.ratio or 1.0) - 1.0), cell.cell)
    )


def headline(comparisons: Sequence[Comparison]) -> str:
    """Return "1 SLOWER, 3 SAME, 1 cell missing": numbers of verdicts, and of cells and devices without a partner."""
    lone = [cell for comparison in comparisons for cell in comparison.only_before]
    without = sum(bool(cell.why) for cell in lone)
    unheld = sum(len(comparison.unheld) for comparison in comparisons)
    counts = {
        "missing": plural(len(lone) - without, "cell") if len(lone) > without else "",
        "without a partner": plural(without, "cell") if without else "",
        "not in the baseline": plural(unheld, "device") if unheld else "",
    }
    return ", ".join((verdicts(comparisons), *(f"{count} {words}" for words, count in counts.items() if count)))


def verdicts(comparisons: Sequence[Comparison]) -> str:
    """Return "1 SLOWER, 3 SAME". If no cell is slower, begins with the phases that are slower as a whole."""
    counts = {word: sum(comparison.counts.get(word, 0) for comparison in comparisons) for word in GRAVEST_FIRST}
    slower = [
        mean.phase for comparison in comparisons for mean in comparison.means if mean.verdict is ChangeVerdict.SLOWER
    ]
    together = [] if counts[ChangeVerdict.SLOWER] else [f"all {phase} cells together SLOWER" for phase in slower]
    return ", ".join((*together, *(f"{count} {word}" for word, count in counts.items() if count))) or NOTHING


def means(comparison: Comparison) -> str:
    """Return the geometric mean of each phase with its interval, or ""."""
    return f"Geometric mean: {', '.join(map(mean, comparison.means))}" if comparison.means else ""


def mean(of_phase: Mean) -> str:
    """Return "training -5.0% (-5.9% to -4.2%) over 3 cells, together SLOWER"."""
    between = f" ({interval(of_phase)})" if interval(of_phase) else ""
    verdict = f", together {of_phase.verdict}" if of_phase.verdict else ""
    return f"{of_phase.phase} {change(of_phase)}{between} over {plural(of_phase.cells, 'cell')}{verdict}"


def naming(comparison: Comparison) -> Callable[[ComparedCell | LoneCell], str]:
    """Return a function that names cells, with the device if there are several."""
    if not _on_several(comparison):
        return lambda cell: cell.cell

    def name(cell: ComparedCell | LoneCell) -> str:
        if isinstance(cell, LoneCell):
            return f"{cell.gpu} {cell.cell}"
        return f"{cell.gpu_after if comparison.against_baseline else cell.gpu_before} {cell.cell}"

    return name


def _on_several(comparison: Comparison) -> bool:
    if comparison.against_baseline:
        return len({cell.gpu_after for cell in comparison.cells} | {cell.gpu for cell in comparison.only_after}) > 1
    pairs = {(cell.gpu_before, cell.gpu_after) for cell in comparison.cells}
    devices = {before for before, _ in pairs} | {cell.gpu for cell in (*comparison.only_before, *comparison.only_after)}
    return len(pairs) > 1 or len(devices) > 1


def change(cell: ComparedCell | Mean) -> str:
    """Return the change of the speed, "-5.0%", or "" where it is unknown."""
    return "" if cell.ratio is None else difference(percent(cell.ratio))


def interval(cell: ComparedCell | Mean) -> str:
    """Return the 95 % interval of the change: "-5.9% to -4.2%"."""
    if cell.low is None or cell.high is None:
        return ""
    return f"{difference(percent(cell.low))} to {difference(percent(cell.high))}"


def percent(ratio: float) -> float:
    """Return the change in percent that a ratio means."""
    return (ratio - 1) * 100


def margin(cell: ComparedCell) -> str:
    """Return "margin 1%", or "" without a margin."""
    return "" if cell.margin_percent is None else f"margin {cell.margin_percent:.3g}%"


def judged(cell: ComparedCell) -> str:
    """Return the change with its interval and the margin, or ""."""
    between = f" (95% interval {interval(cell)}, {margin(cell)})" if cell.low is not None else ""
    return f"{change(cell)}{between}"


def excluded(cells: Sequence[ComparedCell]) -> str:
    """Return the slow-down in percent that is excluded in cells with NO CHANGE SEEN, or ""."""
    found = [cell.excluded_percent for cell in cells if cell.verdict is ChangeVerdict.NO_CHANGE]
    known = sorted({f"{one:.2g}" for one in found if one is not None}, key=float)
    if not known:
        return ""
    return f"a slow-down of more than {' to '.join(dict.fromkeys((known[0], known[-1])))} % is excluded"


def unjudged(comparison: Comparison, most: int = _MOST_LONE) -> Iterator[str]:
    """Yield the cells that are probably slower, not judged, or missing, with their change, the slowest first."""
    name = naming(comparison)
    probably = frozenset({ChangeVerdict.PROBABLY_SLOWER})
    for verdicts, words in ((probably, ChangeVerdict.PROBABLY_SLOWER), (UNJUDGED - probably, "could not be judged")):
        cells = [cell for cell in comparison.cells if cell.must_be_judged and cell.verdict in verdicts]
        cells.sort(key=lambda cell: (cell.ratio is None, cell.ratio, cell.cell))
        if cells:
            more = f" and {len(cells) - most} more" if len(cells) > most else ""
            names = ", ".join(f"{name(cell)} ({change(cell) or 'no change known'})" for cell in cells[:most])
            yield f"{plural(len(cells), 'cell')} {words}: {names}{more}"
    yield from _alone(comparison, comparison.only_before, comparison.before, most)


def remark(cell: ComparedCell) -> str:
    """Return all remarks on a verdict, or ""."""
    return "; ".join(filter(None, (_remark(cell), excluded((cell,)))))


def _remark(cell: ComparedCell) -> str:
    """Return what prevents or weakens a verdict, and the needed launches, or ""."""
    words = [cell.reason] if cell.reason else []
    if cell.launches_needed is not None:
        words.append(f"{cell.launches_needed} launches a side would be needed")
    if cell.needed_beyond:
        words.append(f"more than {MOST_LAUNCHES} launches a side would be needed: too near the margin")
    return "; ".join(words)


def remarks(comparison: Comparison, verdict: ChangeVerdict) -> Iterator[str]:
    """Yield each remark of one verdict once, with its cells."""
    for words, names in grouped(comparison, verdict).items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"{verdict}: {words}: {', '.join(names[:3])}{more}"
    if words := excluded([cell for cell in comparison.cells if cell.verdict is verdict]):
        yield f"{verdict}: {words}"


def grouped(comparison: Comparison, verdict: ChangeVerdict) -> dict[str, list[str]]:
    """Return remark → names of its cells, for one verdict."""
    name, found = naming(comparison), dict[str, list[str]]()
    for cell in comparison.cells:
        if cell.verdict is verdict and (words := _remark(cell)):
            found.setdefault(words, []).append(name(cell))
    return found


def new(comparison: Comparison, most: int = _MOST_LONE) -> Iterator[str]:
    """Yield the cells that only the second run has, grouped by reason."""
    yield from _alone(comparison, comparison.only_after, comparison.after, most)


def _alone(comparison: Comparison, cells: Sequence[LoneCell], side: str, most: int) -> Iterator[str]:
    name, reasons = naming(comparison), dict[str, list[LoneCell]]()
    for cell in cells:
        reasons.setdefault(cell.why, []).append(cell)
    for why, alike in reasons.items():
        were = "was" if len(alike) == 1 else "were"
        words = f"without a partner: {why}" if why else f"{were} not measured in the other run"
        more = f" and {len(alike) - most} more" if len(alike) > most else ""
        names = ", ".join(name(cell) for cell in alike[:most])
        yield f"{plural(len(alike), 'cell')} of {side} {words}: {names}{more}"
