"""Texts of a comparison for all formats: headlines, ratios, remarks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from orchestrator.compare.comparison import ComparedCell, Comparison, LoneCell, Mean
from orchestrator.config.naming import plural
from orchestrator.stats.two_runs import MOST_LAUNCHES, ChangeVerdict
from protocol.exit_codes import ExitCode

GRAVEST_FIRST: Final = (
    ChangeVerdict.SLOWER,
    ChangeVerdict.FASTER,
    ChangeVerdict.INCONCLUSIVE,
    ChangeVerdict.SAME,
    ChangeVerdict.NOT_COMPARABLE,
)
_MOST_LONE: Final = 10
LEGEND: Final = "Speed: of the second over the first, above 1 is faster."
MEANS: Final = {
    ExitCode.PASSED: "no verdict that fails the comparison",
    ExitCode.MISSED: "a verdict that fails the comparison",
    ExitCode.INCOMPLETE: "a comparison with nothing comparable, or conclusive",
}
NOTHING: Final = "no cell was measured in both"


def ordered(cells: Sequence[ComparedCell]) -> list[ComparedCell]:
    """Sort by verdict, gravest first, then by distance of the ratio from one."""
    return sorted(
        cells, key=lambda cell: (GRAVEST_FIRST.index(cell.verdict), -abs((cell.ratio or 1.0) - 1.0), cell.cell)
    )


def headline(one: Comparison) -> str:
    """Return the numbers of verdicts, the mean, and the numbers of cells and devices without a partner."""
    told = {"missing": 0, "without a partner": 0}
    for cell in one.only_before:
        told["without a partner" if cell.why else "missing"] += 1
    lone = [f"{plural(number, 'cell')} of {one.before} {words}" for words, number in told.items() if number]
    unheld = [f"{plural(len(one.unheld), 'device')} of {one.after} held against nothing"] if one.unheld else []
    return "; ".join(filter(None, (verdicts(one), mean(one), *lone, *unheld)))


def verdicts(one: Comparison) -> str:
    """Return "1 SLOWER, 3 SAME"."""
    return ", ".join(f"{one.counts[word]} {word}" for word in GRAVEST_FIRST if one.counts.get(word)) or NOTHING


def mean(one: Comparison) -> str:
    """Return the geometric mean with its interval, or ""."""
    if one.mean is None:
        return ""
    between = f" ({interval(one.mean)})" if interval(one.mean) else ""
    return f"geometric mean of the speed {one.mean.ratio:.3f}{between} over {plural(one.mean.cells, 'cell')}"


def naming(one: Comparison) -> Callable[[ComparedCell | LoneCell], str]:
    """Return a function that names cells, with the device if there are several."""
    if not _on_several(one):
        return lambda cell: cell.cell

    def name(cell: ComparedCell | LoneCell) -> str:
        if isinstance(cell, LoneCell):
            return f"{cell.gpu} {cell.cell}"
        return f"{cell.gpu_after if one.against_baseline else cell.gpu_before} {cell.cell}"

    return name


def _on_several(one: Comparison) -> bool:
    if one.against_baseline:
        return len({cell.gpu_after for cell in one.cells} | {cell.gpu for cell in one.only_after}) > 1
    pairs = {(cell.gpu_before, cell.gpu_after) for cell in one.cells}
    devices = {before for before, _ in pairs} | {cell.gpu for cell in (*one.only_before, *one.only_after)}
    return len(pairs) > 1 or len(devices) > 1


def ratio(cell: ComparedCell) -> str:
    """Return "0.950"."""
    return "" if cell.ratio is None else f"{cell.ratio:.3f}"


def interval(cell: ComparedCell | Mean) -> str:
    """Return the 95 % interval: "0.941 to 0.958"."""
    return "" if cell.low is None else f"{cell.low:.3f} to {cell.high:.3f}"


def remark(cell: ComparedCell) -> str:
    """Return what prevents a verdict, and the needed launches, or ""."""
    words = [cell.reason] if cell.reason else []
    if cell.launches_needed is not None:
        words.append(f"{cell.launches_needed} launches a side would be needed")
    if cell.needed_beyond:
        words.append(f"more than {MOST_LAUNCHES} launches a side would be needed: too near the margin")
    return "; ".join(words)


def remarks(one: Comparison, verdict: ChangeVerdict) -> Iterator[str]:
    """Yield each remark of one verdict once, with its cells."""
    for words, names in grouped(one, verdict).items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"{verdict}: {words}: {', '.join(names[:3])}{more}"


def grouped(one: Comparison, verdict: ChangeVerdict) -> dict[str, list[str]]:
    """Return remark → names of its cells, for one verdict."""
    name, found = naming(one), dict[str, list[str]]()
    for cell in one.cells:
        if cell.verdict is verdict and (words := remark(cell)):
            found.setdefault(words, []).append(name(cell))
    return found


def apart(one: Comparison, most: int = _MOST_LONE) -> Iterator[str]:
    """Yield the cells without a partner, grouped by reason."""
    name = naming(one)
    for cells, side in ((one.only_before, one.before), (one.only_after, one.after)):
        reasons: dict[str, list[LoneCell]] = {}
        for cell in cells:
            reasons.setdefault(cell.why, []).append(cell)
        for why, alike in reasons.items():
            were = "was" if len(alike) == 1 else "were"
            words = f"without a partner: {why}" if why else f"{were} not measured in the other run"
            more = f" and {len(alike) - most} more" if len(alike) > most else ""
            names = ", ".join(name(cell) for cell in alike[:most])
            yield f"{plural(len(alike), 'cell')} of {side} {words}: {names}{more}"
