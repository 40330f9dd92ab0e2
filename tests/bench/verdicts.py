"""The tables of docs/method-reference.md, "Two runs": false verdicts and changes that are found, by simulation.

    python -m tests.bench.verdicts [repetitions]

With 100 repetitions it takes about five minutes. A column is a number of launches a side: 1, 2, 3, 5.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from orchestrator.stats.two_runs import ChangeVerdict
from tests.fakes.compared_runs import PairVerdicts, Setting, simulated_verdicts

LAUNCHES: Final = (1, 2, 3, 5)
FIRST_SEED: Final = 10_000
"""Not those by which the rules were chosen."""
SESSIONS: Final = (0.0, 0.003, 0.005)
UNCHANGED: Final = {
    "0.5 %, equal": Setting(),
    "0.5 %, unequal": Setting(unequal=0.7),
    "2 %, equal": Setting(spread=0.02),
    "2 %, unequal": Setting(spread=0.02, unequal=0.7),
    "0.5 %, 14 cells bimodal": Setting(bimodal=14),
    "15 %, all bound by the host": Setting(spread=0.15, host=True),
    "15 %, unequal, all bound by the host": Setting(spread=0.15, unequal=0.7, host=True),
    "2 %, all not steady": Setting(spread=0.02, trusted=False),
    "15 %, all not steady": Setting(spread=0.15, trusted=False),
    "60 %, all not steady, bound by the host": Setting(spread=0.6, trusted=False, host=True),
    "60 %, unequal, all not steady, bound by the host": Setting(spread=0.6, unequal=0.7, trusted=False, host=True),
}
CHANGED: Final = {
    "one cell 5 % slower": Setting(changed=1, speed=0.95),
    "one cell 5 % slower, unequal": Setting(changed=1, speed=0.95, unequal=0.7),
    "one cell 10 % slower": Setting(changed=1, speed=0.9),
    "one cell 10 % slower, unequal": Setting(changed=1, speed=0.9, unequal=0.7),
    "one cell 20 % slower": Setting(changed=1, speed=0.8),
    "one cell 20 % slower, unequal": Setting(changed=1, speed=0.8, unequal=0.7),
    "one cell at half the speed": Setting(changed=1, speed=0.5),
}


def main(repetitions: int) -> None:
    print("## Any false verdict / cells SAME or NO CHANGE SEEN / runs in which every cell is, in %")
    table(UNCHANGED, repetitions, _unchanged)
    print("## The change is found, in %")
    table(CHANGED, repetitions, lambda all_of: f"{_percent(one.finds_every_change for one in all_of)}")
    print("## All cells 10 % slower: some verdict, in %")
    table({"all cells 10 % slower": Setting(changed=68, speed=0.9)}, repetitions, _some)


def table(settings: dict[str, Setting], repetitions: int, words: Callable[[list[PairVerdicts]], str]) -> None:
    for session in SESSIONS:
        print(f"\n| spread, sessions {session:.1%} | {' | '.join(str(launches) for launches in LAUNCHES)} |")
        for name, setting in settings.items():
            entries = []
            for launches in LAUNCHES:
                own = replace(setting, launches=(launches, launches), session=session)
                entries.append(words([simulated_verdicts(own, FIRST_SEED + seed) for seed in range(repetitions)]))
            print(f"| {name} | {' | '.join(entries)} |", flush=True)


def _unchanged(all_of: list[PairVerdicts]) -> str:
    good = (ChangeVerdict.SAME, ChangeVerdict.NO_CHANGE)
    cells = [one.verdict in good for found in all_of for one in found.cells]
    whole = [not {*found.verdicts} - {*good} for found in all_of]
    return f"{_percent(found.tells_a_change for found in all_of)} / {_percent(cells)} / {_percent(whole)}"


def _some(all_of: list[PairVerdicts]) -> str:
    return _percent(one.tells_a_change for one in all_of)


def _percent(values: Iterable[bool]) -> str:
    found = list(values)
    return f"{100 * sum(found) / len(found):.3g}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
