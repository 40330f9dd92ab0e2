"""Texts of a comparison for all formats: headlines, changes, remarks. A cell is a model in one configuration."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from orchestrator.compare.comparison import MISSING, UNJUDGED, ComparedCell, Comparison, LoneCell, Mean
from orchestrator.config.naming import plural
from orchestrator.config.yaml_schema import listed
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
_MOST_SLOWER: Final = 5
LEGEND: Final = "Change: speed of the second run relative to the first; above 0% is faster."
MEANS: Final = {
    ExitCode.PASSED: "no verdict fails the comparison (--fail-on)",
    ExitCode.MISSED: "a verdict fails the comparison (--fail-on)",
    ExitCode.INCOMPLETE: "a cell could not be judged, or is missing in the second run",
}
NOTHING: Final = "no cell was measured in both runs"


def failure(failing: Sequence[str]) -> str:
    """Return "SLOWER and WRONG fail the comparison (--fail-on)"; "" if `failing` (of `comparison.failing`) is empty."""
    verb = "fail" if len(failing) > 1 or MISSING in failing else "fails"
    return f"{listed(failing, 'and')} {verb} the comparison (--fail-on)" if failing else ""


def ordered(cells: Sequence[ComparedCell]) -> list[ComparedCell]:
    """Return the cells sorted by verdict, gravest first, then by distance of the ratio from one, largest first."""
    return sorted(
        cells, key=lambda cell: (GRAVEST_FIRST.index(cell.verdict), -abs((cell.ratio or 1.0) - 1.0), cell.cell)
    )


def headline(comparisons: Sequence[Comparison]) -> str:
    """Return the numbers of verdicts and of what has no partner: "1 SLOWER, 3 SAME, 1 cell missing".

    What has no partner is a cell of the first run, or a device of the second run without a cell in the baseline.
    """
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
    """Return the numbers of verdicts: "1 SLOWER, 3 SAME"; "no cell was measured in both runs" without cells.

    If no cell is SLOWER by itself, the text begins with the workloads that are SLOWER as a whole.
    """
    counts = {word: sum(comparison.counts.get(word, 0) for comparison in comparisons) for word in GRAVEST_FIRST}
    slower = [
        mean.phase for comparison in comparisons for mean in comparison.means if mean.verdict is ChangeVerdict.SLOWER
    ]
    together = [] if counts[ChangeVerdict.SLOWER] else [f"{phase} SLOWER as a whole" for phase in slower]
    return ", ".join((*together, *(f"{count} {word}" for word, count in counts.items() if count))) or NOTHING


def means(comparison: Comparison) -> str:
    """Return "Geometric mean: " and the `mean` of each workload, separated by commas; "" without means."""
    return f"Geometric mean: {', '.join(map(mean, comparison.means))}" if comparison.means else ""


def mean(of_phase: Mean) -> str:
    """Return "training -5.0% (-5.9% to -4.2%) over 3 cells: SLOWER as a whole"; interval and verdict only if known."""
    between = f" ({interval(of_phase)})" if interval(of_phase) else ""
    verdict = f": {of_phase.verdict} as a whole" if of_phase.verdict else ""
    return f"{of_phase.phase} {change(of_phase)}{between} over {plural(of_phase.cells, 'cell')}{verdict}"


def naming(comparison: Comparison) -> Callable[[ComparedCell | LoneCell], str]:
    """Return a function that names a cell: "lstm inference fp32 b8", or "GPU 0 lstm ..." with several devices."""
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
    """Return the change of speed of a cell or workload since the first run, "-5.0%" (slower); "" if unknown."""
    return "" if cell.ratio is None else difference(percent(cell.ratio))


def interval(cell: ComparedCell | Mean) -> str:
    """Return the 95 % interval of the change, "-5.9% to -4.2%"; "" if it is unknown."""
    if cell.low is None or cell.high is None:
        return ""
    return f"{difference(percent(cell.low))} to {difference(percent(cell.high))}"


def percent(ratio: float) -> float:
    """Convert a ratio of rates to the change in percent: 0.95 to -5."""
    return (ratio - 1) * 100


def margin(cell: ComparedCell) -> str:
    """Return the largest change of a cell that counts as none, "margin 1%"; "" if it has no margin."""
    return "" if cell.margin_percent is None else f"margin {cell.margin_percent:.3g}%"


def judged(cell: ComparedCell) -> str:
    """Return the change of a cell, "-5.0% (95% interval -5.9% to -4.2%, margin 1%)"; "" if it is unknown.

    If only the interval is unknown, the text is "-5.0%".
    """
    between = f" (95% interval {interval(cell)}, {margin(cell)})" if cell.low is not None else ""
    return f"{change(cell)}{between}"


def excluded(cells: Sequence[ComparedCell]) -> str:
    """Return "a slow-down of more than 1.2 % is ruled out" for the NO CHANGE SEEN cells among `cells`.

    The number is the largest `excluded_percent` of these cells, so it holds for each of them. "" if none has one.
    """
    found = [cell.excluded_percent for cell in cells if cell.verdict is ChangeVerdict.NO_CHANGE]
    known = [one for one in found if one is not None]
    return f"a slow-down of more than {max(known):.2g} % is ruled out" if known else ""


def slower(comparison: Comparison, most: int = _MOST_SLOWER) -> str:
    """Return "SLOWER: lstm training fp32 b1 -4.8% (GPU 0, GPU 1)", worst cell first; "" without SLOWER cells.

    most: largest number of cells to name; the others follow as "and 3 more". Devices are named if there are several.
    """
    found: dict[str, list[ComparedCell]] = {}
    for cell in ordered(comparison.cells):
        if cell.verdict is ChangeVerdict.SLOWER:
            found.setdefault(cell.cell, []).append(cell)
    several = _on_several(comparison)
    names = []
    for name, cells in found.items():
        changes = " to ".join(dict.fromkeys(change(cell) for cell in (cells[0], cells[-1])))
        devices = sorted(cell.gpu_after if comparison.against_baseline else cell.gpu_before for cell in cells)
        names.append(f"{name} {changes} ({', '.join(devices)})" if several else f"{name} {changes}")
    more = f" and {len(names) - most} more" if len(names) > most else ""
    order = ", worst first" if len(names) > 1 else ""
    return f"SLOWER{order}: {', '.join(names[:most])}{more}" if names else ""


def unjudged(comparison: Comparison, most: int = _MOST_LONE) -> Iterator[str]:
    """Yield texts on probably slower cells, then on unjudged cells, then on cells of the first run without a partner.

    A text names at most `most` cells and counts the others ("and 3 more"). In the first two groups the slowest cells
    come first.
    """
    name = naming(comparison)
    probably = frozenset({ChangeVerdict.PROBABLY_SLOWER})
    for verdicts, words in ((probably, ChangeVerdict.PROBABLY_SLOWER), (UNJUDGED - probably, "could not be judged")):
        cells = [cell for cell in comparison.cells if cell.must_be_judged and cell.verdict in verdicts]
        cells.sort(key=lambda cell: (cell.ratio is None, cell.ratio, cell.cell))
        if cells:
            more = f" and {len(cells) - most} more" if len(cells) > most else ""
            names = ", ".join(f"{name(cell)} ({change(cell) or 'change unknown'})" for cell in cells[:most])
            yield f"{plural(len(cells), 'cell')} {words}: {names}{more}"
    yield from _alone(comparison, comparison.only_before, comparison.before, most)


def next_step(comparisons: Sequence[Comparison]) -> str:
    """Return the command or option that would decide inconclusive and probably slower cells; "" without such cells."""
    undecided = (ChangeVerdict.INCONCLUSIVE, ChangeVerdict.PROBABLY_SLOWER)
    cells = [cell for one in comparisons for cell in one.cells if cell.must_be_judged and cell.verdict in undecided]
    if not cells:
        return ""
    if any(cell.needed_beyond for cell in cells):
        return f"allow a larger margin with `--threshold`: {MOST_LAUNCHES} launches would not decide every cell"
    needed = max((cell.launches_needed for cell in cells if cell.launches_needed is not None), default=None)
    if needed is not None:
        return f"measure both sides again with `--launches {needed}`, then compare the new runs"
    return (
        f"`gpubench-orchestrate gate {comparisons[0].before}{_on_cpus(comparisons[0])}` measures on this machine until "
        "each cell is decided"
    )


def _on_cpus(comparison: Comparison) -> str:
    """Return " --gpu-ids cpu:0,cpu:1" with the CPU devices of the first run; "" if that run was on GPUs."""
    devices = [*(cell.gpu_before for cell in comparison.cells), *(cell.gpu for cell in comparison.only_before)]
    cpus = dict.fromkeys(device for device in devices if device.startswith("cpu:"))
    return f" --gpu-ids {','.join(cpus)}" if cpus else ""


def remark(cell: ComparedCell) -> str:
    """Return all remarks on the verdict of a cell as one text, or ""."""
    return "; ".join(filter(None, (_remark(cell), excluded((cell,)))))


def _remark(cell: ComparedCell) -> str:
    words = [cell.reason] if cell.reason else []
    if cell.launches_needed is not None:
        words.append(f"a verdict needs {cell.launches_needed} launches per side")
    if cell.needed_beyond:
        words.append(f"a verdict needs more than {MOST_LAUNCHES} launches per side: the change is too near the margin")
    return "; ".join(words)


def remarks(comparison: Comparison, verdict: ChangeVerdict) -> Iterator[str]:
    """Yield "VERDICT: remark: A, B, C and 2 more" for each remark on cells with this verdict.

    For NO CHANGE SEEN, the last text is the slow-down that is ruled out, if known (`excluded`).
    """
    for words, names in grouped(comparison, verdict).items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"{verdict}: {words}: {', '.join(names[:3])}{more}"
    if words := excluded([cell for cell in comparison.cells if cell.verdict is verdict]):
        yield f"{verdict}: {words}"


def grouped(comparison: Comparison, verdict: ChangeVerdict) -> dict[str, list[str]]:
    """Return remark → names of the cells with this verdict and remark. Cells without a remark are omitted."""
    name, found = naming(comparison), dict[str, list[str]]()
    for cell in comparison.cells:
        if cell.verdict is verdict and (words := _remark(cell)):
            found.setdefault(words, []).append(name(cell))
    return found


def new(comparison: Comparison, most: int = _MOST_LONE) -> Iterator[str]:
    """Yield a text for each reason why cells are only in the second run. most: number of cells that a text names."""
    yield from _alone(comparison, comparison.only_after, comparison.after, most)


def _alone(comparison: Comparison, cells: Sequence[LoneCell], side: str, most: int) -> Iterator[str]:
    name, reasons = naming(comparison), dict[str, list[LoneCell]]()
    for cell in cells:
        reasons.setdefault(cell.why, []).append(cell)
    for why, alike in reasons.items():
        have, were = ("has", "was") if len(alike) == 1 else ("have", "were")
        words = f"{have} no partner, because {why}" if why else f"{were} not measured in the other run"
        more = f" and {len(alike) - most} more" if len(alike) > most else ""
        names = ", ".join(name(cell) for cell in alike[:most])
        yield f"{plural(len(alike), 'cell')} of {side} {words}: {names}{more}"
