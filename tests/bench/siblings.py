"""How often sibling verdicts and courses of a burn-in are right, by simulation: the tables of docs/method-reference.md.

.venv/bin/python -m tests.bench.siblings [nodes a row, 300]
"""

import itertools
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from orchestrator.config import margins
from orchestrator.stats import beside_baseline, drift, stragglers
from orchestrator.stats.drift import DriftVerdict
from orchestrator.stats.stragglers import ALPHA, Bound, SiblingCell, holm
from orchestrator.stats.windows import Window
from tests.fakes.series import AN_HOUR, correlated

LAUNCHES: Final = 3
NOISE: Final = 0.005
"""Standard deviation between launches."""
OWN: Final = 0.003
"""Standard deviation of a board in one cell alone."""
A_VISIT: Final = 7
"""Windows: twelve kinds have four visits in an hour, as at level `full`."""
Slowed = Callable[[int, int], float]
"""Rate of a GPU in a cell, by their numbers, as a share of a healthy one's."""


class Row(NamedTuple):
    """A setting. spread: standard deviation between boards, in each bound by itself."""

    words: str
    gpus: int
    cells: int
    spread: float
    rate: Slowed = lambda _gpu, _cell: 1.0


def node(chance: random.Random, row: Row) -> list[SiblingCell]:
    """Cells of all bounds in turn."""
    boards = [{bound: chance.gauss(0, row.spread) for bound in Bound} for _ in range(row.gpus)]
    made = []
    for number, bound in zip(range(row.cells), itertools.cycle(Bound), strict=False):
        levels = [
            math.log(row.rate(gpu, number)) + boards[gpu][bound] + chance.gauss(0, OWN) for gpu in range(row.gpus)
        ]
        rates = {
            f"{gpu}": [math.exp(level + chance.gauss(0, NOISE)) for _ in range(LAUNCHES)]
            for gpu, level in enumerate(levels)
        }
        made.append(SiblingCell(name=f"{number}", bound=bound, rates=rates))
    return made


def rows() -> Iterator[Row]:
    """The settings of docs/method-reference.md."""
    for gpus, cells, spread in itertools.product((4, 8), (6, 68), (0.005, 0.01, 0.02)):
        yield Row("healthy", gpus, cells, spread)
    for gpus, spread, lost in itertools.product((4, 8), (0.005, 0.01), (0.03, 0.05, 0.07, 0.1)):
        yield Row(f"one slow by {lost:.0%}", gpus, 6, spread, lambda gpu, _, lost=lost: 1 - lost * (gpu == 0))
    for gpus, slow in ((8, 5), (8, 7), (4, 3)):
        yield Row(f"{slow} slow by 10%", gpus, 6, 0.005, lambda gpu, _, slow=slow: 1 - 0.1 * (gpu < slow))
    for spread in (0.005, 0.01):
        yield Row("one slow by 20% in 4 of 68", 8, 68, spread, lambda gpu, cell: 0.8 if gpu == 0 and cell < 4 else 1.0)


def of_siblings(nodes: int) -> Iterator[str]:
    """For each setting, the share of nodes with each verdict on GPU 0, and with any finding."""
    shares = margins.load().shares
    yield "| setting | GPUs | cells | spread | any finding | verdict on GPU 0 |"
    yield "|---|---|---|---|---|---|"
    for row in rows():
        count = nodes if row.cells < 10 else max(nodes // 3, 1)
        judged = [stragglers.judge(node(random.Random(seed), row), shares) for seed in range(count)]
        found = sum(any(one.verdict.is_finding for one in own) for own in judged) / count
        first = Counter(own[0].verdict.value for own in judged)
        told = ", ".join(f"{verdict} {number / count:.1%}" for verdict, number in first.most_common())
        yield f"| {row.words} | {row.gpus} | {row.cells} | {row.spread:.1%} | {found:.1%} | {told} |"


def of_baselines(nodes: int) -> Iterator[str]:
    """Eight GPUs against a baseline of their board, whose cells differ by 1 % between two boards."""
    margin = margins.load().baseline.share
    yield "| all eight slow by | cells | BELOW BASELINE: any GPU | every GPU |"
    yield "|---|---|---|---|"
    for lost, cells in itertools.product((0.0, 0.05, 0.1), (4, 6, 20)):
        slow = []
        for seed in range(nodes):
            chance = random.Random(seed)
            ratios = [[(1 - lost) * math.exp(chance.gauss(0, 0.01)) for _ in range(cells)] for _ in range(8)]
            effects = {gpu: beside_baseline.effect(own, margin) for gpu, own in enumerate(ratios)}
            slow.append(sum(p <= ALPHA for p in holm({gpu: one.p for gpu, one in effects.items() if one}).values()))
        yield f"| {lost:.0%} | {cells} | {sum(map(bool, slow)) / nodes:.1%} | {slow.count(8) / nodes:.1%} |"


def burn_in_run(
    chance: random.Random, hours: float, gpus: int, kinds: int, lost: Callable[[int, int, float], float]
) -> dict[str, list[Window]]:
    """Rates of a burn-in, windows that differ by 0.3 % at autocorrelation 0.9. lost: by GPU, kind and hours."""
    count, rates = int(hours * AN_HOUR), {}
    for gpu in range(gpus):
        values = correlated(chance, count, 0.9, 0.003)
        rates[f"{gpu}"] = [
            Window(at, f"{kind}", (1 - lost(gpu, kind, at / AN_HOUR)) * math.exp(value))
            for at, value in enumerate(values)
            for kind in [at // A_VISIT % kinds]
        ]
    return rates


def of_courses(burn_in_runs: int) -> Iterator[str]:
    """The share of burn-ins of five GPUs in which GPU 0 is slowing, and in which any other is."""
    shapes: Sequence[tuple[str, Callable[[int, int, float, float], float]]] = (
        ("nothing", lambda *_: 0.0),
        ("5% evenly", lambda gpu, _, at, hours: 0.05 * at / hours * (gpu == 0)),
        ("4% at once, half-time", lambda gpu, _, at, hours: 0.04 * (gpu == 0 and at > hours / 2)),
        (
            "5% of one kind at half-time",
            lambda gpu, kind, at, hours: 0.05 * (gpu == 0 and kind == 5 and at > hours / 2),
        ),
        ("a room, 2% up and down", lambda _gpu, _kind, at, _hours: 0.01 * (1 - math.cos(at * math.tau / 3))),
    )
    yield "| GPU 0 loses | hours | kinds | GPU 0 slowing | any other slowing |"
    yield "|---|---|---|---|---|"
    limits = margins.load().drift.share, margins.load().drift_alone.share
    for (words, lost), hours, kinds in itertools.product(shapes, (1, 2, 8), (1, 12)):
        if kinds == 1 and "kind" in words:
            continue
        own = others = 0
        for seed in range(burn_in_runs):
            rates = burn_in_run(
                random.Random(seed),
                hours,
                5,
                kinds,
                lambda gpu, kind, at, lost=lost, hours=hours: lost(gpu, kind, at, hours),
            )
            slow = {one.gpu for one in drift.judge(rates, *limits) if one.verdict is DriftVerdict.SLOWING}
            own += "0" in slow
            others += bool(slow - {"0"})
        yield f"| {words} | {hours} | {kinds} | {own / burn_in_runs:.0%} | {others / burn_in_runs:.0%} |"


def main() -> None:
    """Print all tables."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for table in (of_siblings(nodes), of_baselines(nodes), of_courses(max(nodes // 15, 1))):
        for line in table:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
