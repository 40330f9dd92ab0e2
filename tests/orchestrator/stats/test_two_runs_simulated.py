"""What is said of whole runs of 68 cells, by simulation: false verdicts, changes that are found.

The bounds are those of the tables in docs/method-reference.md, less what few repetitions allow.
`python -m tests.bench.verdicts` prints them.
"""

import pytest

from orchestrator.stats.two_runs import ChangeVerdict
from tests.fakes.compared_runs import FALSE, Setting, simulated_verdicts

REPETITIONS = 60


def share(setting: Setting, count: str) -> float:
    """Share of pairs of runs in which that is said."""
    return sum(getattr(simulated_verdicts(setting, seed), count) for seed in range(REPETITIONS)) / REPETITIONS


@pytest.mark.parametrize("launches", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "setting",
    [
        {"session": 0.003},
        {"session": 0.005, "spread": 0.02},
        {"session": 0.005, "unequal": 0.7},
        {"bimodal": 14, "session": 0.003},
    ],
)
def test_an_unchanged_run_has_no_false_verdict(launches: int, setting: dict[str, float]) -> None:
    """Sessions, spreads that differ from cell to cell, two modes: in one pair of runs of a hundred at most."""
    assert share(Setting(launches=(launches, launches), **setting), "tells_a_change") <= 2 / REPETITIONS  # type: ignore[arg-type]  # numbers of a setting


@pytest.mark.parametrize("session", [0.0, 0.003, 0.005])
@pytest.mark.parametrize(
    ("launches", "speed", "least"),
    [(3, 0.95, 0.9), (1, 0.8, 1.0), (1, 0.5, 1.0)],
)
def test_a_change_of_one_cell_is_found(session: float, launches: int, speed: float, least: float) -> None:
    """5 % with three launches that scatter by 0.5 %; 20 % with one, always."""
    setting = Setting(launches=(launches, launches), changed=1, speed=speed, session=session)
    assert share(setting, "finds_every_change") >= least


def test_a_change_of_all_cells_is_found_with_one_launch() -> None:
    """10 % of each: by all cells together, where single ones cannot tell."""
    for seed in range(20):
        found = simulated_verdicts(Setting(launches=(1, 1), changed=68, speed=0.9, session=0.003), seed)
        assert found.mean.verdict is ChangeVerdict.SLOWER


def test_a_cell_that_has_one_launch_among_others_of_three_gets_their_spread() -> None:
    """10 % of it is found always, and nothing where nothing changed."""
    for seed in range(30):
        for speed, verdict in ((1.0, ChangeVerdict.NO_CHANGE), (0.9, ChangeVerdict.SLOWER)):
            lone = simulated_verdicts(Setting(launches=(3, 3), changed=1, speed=speed, lone=1), seed).cells[0]
            assert lone.verdict is verdict


def test_cells_of_the_host_are_judged_by_their_own_prior() -> None:
    """Noise of 15 % is no change. Half the throughput of several cells is found only by their mean."""
    noisy = Setting(cells=20, launches=(1, 1), spread=0.15, host=True, session=0.01)
    assert share(noisy, "tells_a_change") <= 2 / REPETITIONS
    half = simulated_verdicts(Setting(cells=4, launches=(1, 1), spread=0.05, host=True, changed=4, speed=0.5), 1)
    assert half.mean.verdict is ChangeVerdict.SLOWER
    assert not FALSE & {*half.verdicts}


def test_times_that_were_not_steady_are_judged_by_the_prior_whatever_their_launches() -> None:
    """A fifth of the speed is beyond it: probably slower. Half is not."""
    for speed, verdict in ((0.2, ChangeVerdict.PROBABLY_SLOWER), (0.5, ChangeVerdict.INCONCLUSIVE)):
        found = simulated_verdicts(Setting(cells=1, launches=(1, 1), changed=1, speed=speed, trusted=False), 1)
        assert found.cells[0].verdict is verdict
    back = simulated_verdicts(Setting(cells=1, launches=(3, 3), changed=1, speed=5.0, trusted=False), 1)
    assert back.cells[0].verdict is ChangeVerdict.INCONCLUSIVE
