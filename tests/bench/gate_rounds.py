"""The table of docs/gate.md, "When it ends": gates of one cell by simulation, judged after every round.

    python -m tests.bench.gate_rounds [gates]

With 300 gates a row it takes about three minutes.
"""

import random
import sys
from collections.abc import Iterator
from statistics import median
from typing import Final, NamedTuple

from orchestrator.compare import comparison
from orchestrator.config import margins
from orchestrator.kinds.gate import planning, undecided
from orchestrator.kinds.gate.sides import ONE_SESSION
from orchestrator.stats.two_runs import ChangeVerdict
from tests.fakes.sides import cell, side

ROUNDS: Final = 40
SPREADS: Final = (0.03, 0.1, 0.3, 0.6)
_MARGINS: Final = margins.load()


class Ended(NamedTuple):
    """How a gate ended."""

    launches: int
    verdict: ChangeVerdict


def gate(spread: float, speed: float, seed: int) -> Ended:
    """A gate whose launches vary by `spread`. speed: of the second side."""
    sides = tuple(
        _launches(spread, level, f"{spread} {level} {side_} {seed}") for side_, level in enumerate((1.0, speed))
    )
    before, after = ([next(one) for _ in range(planning.FIRST_ROUNDS - 1)] for one in sides)
    while True:
        before.append(next(sides[0]))
        after.append(next(sides[1]))
        both = (side(cell("resnet50", *rates)) for rates in (before, after))
        (judged,) = comparison.compare(*both, _MARGINS, None, ONE_SESSION).cells
        if len(before) == ROUNDS or not undecided.needs_launches(judged):
            return Ended(len(before), judged.verdict)


def _launches(spread: float, level: float, seed: str) -> Iterator[float]:
    chance = random.Random(seed)
    while True:
        yield 100 * level * chance.lognormvariate(0, spread)


def main(gates: int) -> None:
    print("| launches vary by | unchanged: SLOWER | twice as slow: launches a side | found |")
    for spread in SPREADS:
        same, slow = ([gate(spread, speed, seed) for seed in range(gates)] for speed in (1.0, 0.5))
        false, found = (sum(one.verdict is ChangeVerdict.SLOWER for one in ended) / gates for ended in (same, slow))
        print(f"| {spread:.0%} | {false:.1%} | {median(one.launches for one in slow):g} | {found:.0%} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
