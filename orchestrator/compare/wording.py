"""Comparisons in words and numbers, for every format: headlines, ratios, remarks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from orchestrator.compare.comparison import ComparedCell, Comparison, LoneCell
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
"""Names of cells that one run alone has, where the format is read from top to bottom."""
LEGEND: Final = "Speed: of the second over the first, above 1 is faster."
MEANS: Final = {
    ExitCode.PASSED: "no verdict that fails the comparison",
    ExitCode.MISSED: "a verdict that fails the comparison",
    ExitCode.INCOMPLETE: "a comparison with nothing comparable, or conclusive",
}
NOTHING: Final = "no cell was measured in both"


def ordered(cells: Sequence[ComparedCell]) -> list[ComparedCell]:
    """What matters first; the furthest from one first within a word."""
    return sorted(
        cells, key=lambda cell: (GRAVEST_FIRST.index(cell.verdict), -abs((cell.ratio or 1.0) - 1.0), cell.cell)
    )


def headline(one: Comparison) -> str:
    """How many cells got which word, the mean, how many cells of the first run have no partner, devices likewise."""
    told = {"missing": 0, "without a partner": 0}
    for cell in one.only_before:
        told["without a partner" if cell.why else "missing"] += 1
    lone = [f"{plural(number, 'cell')} of {one.before} {words}" for words, number in told.items() if number]
    unheld = [f"{plural(len(one.unheld), 'device')} of {one.after} held against nothing"] if one.unheld else []
    return "; ".join(filter(None, (verdicts(one), mean(one), *lone, *unheld)))


def verdicts(one: Comparison) -> str:
    """1 SLOWER, 3 SAME."""
    return ", ".join(f"{one.counts[word]} {word}" for word in GRAVEST_FIRST if one.counts.get(word)) or NOTHING


def mean(one: Comparison) -> str:
    """The geometric mean, with its interval; empty where nothing compares."""
    if one.mean is None:
        return ""
    interval = "" if one.mean.low is None else f" ({one.mean.low:.3f} to {one.mean.high:.3f})"
    return f"geometric mean of the speed {one.mean.ratio:.3f}{interval} over {plural(one.mean.cells, 'cell')}"


def naming(one: Comparison) -> Callable[[ComparedCell], str]:
    """How its cells are called: with the device where there are several. Beside a baseline, that of the run."""
    several = _on_several(one)
    return lambda cell: f"{_device(one, cell)} {cell.cell}" if several else cell.cell


def naming_lone(one: Comparison) -> Callable[[LoneCell], str]:
    """How cells without a partner are called: likewise."""
    several = _on_several(one)
    return lambda cell: f"{cell.gpu} {cell.cell}" if several else cell.cell


def _device(one: Comparison, cell: ComparedCell) -> str:
    return cell.gpu_after if one.against_baseline else cell.gpu_before


def _on_several(one: Comparison) -> bool:
    """Whether its cells, with a partner and without, are on several devices."""
    if one.against_baseline:
        return len({cell.gpu_after for cell in one.cells} | {cell.gpu for cell in one.only_after}) > 1
    pairs = {(cell.gpu_before, cell.gpu_after) for cell in one.cells}
    devices = {before for before, _ in pairs} | {cell.gpu for cell in (*one.only_before, *one.only_after)}
    return len(pairs) > 1 or len(devices) > 1


def ratio(cell: ComparedCell) -> str:
    """0.950."""
    return "" if cell.ratio is None else f"{cell.ratio:.3f}"


def interval(cell: ComparedCell) -> str:
    """0.941 to 0.958, of 95 %."""
    return "" if cell.low is None else f"{cell.low:.3f} to {cell.high:.3f}"


def remark(cell: ComparedCell) -> str:
    """What stands against a verdict, and how many launches would be needed; empty where there is nothing to say."""
    words = [cell.reason] if cell.reason else []
    if cell.launches_needed is not None:
        words.append(f"{cell.launches_needed} launches a side would be needed")
    if cell.needed_beyond:
        words.append(f"more than {MOST_LAUNCHES} launches a side would be needed: too near the margin")
    return "; ".join(words)


def remarks(one: Comparison, verdict: ChangeVerdict) -> Iterator[str]:
    """The remarks on cells of one verdict: each once, with the cells that it is about."""
    for words, names in grouped(one, verdict).items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"{verdict}: {words}: {', '.join(names[:3])}{more}"


def grouped(one: Comparison, verdict: ChangeVerdict) -> dict[str, list[str]]:
    """What stands against a verdict → the cells that it is about, of one verdict."""
    name, found = naming(one), dict[str, list[str]]()
    for cell in one.cells:
        if cell.verdict is verdict and (words := remark(cell)):
            found.setdefault(words, []).append(name(cell))
    return found


def apart(one: Comparison, most: int = _MOST_LONE) -> Iterator[str]:
    """Cells that have no partner, by the reason, the first of them by name."""
    name = naming_lone(one)
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
