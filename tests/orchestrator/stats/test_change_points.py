"""stats/change_points.py by seeded simulation: false alarms where nothing changed, and the changes it finds."""

import math
import random
from collections.abc import Callable

import pytest

from orchestrator.stats import change_points
from orchestrator.stats.change_points import LEAST

MARGIN = 0.01


def series(chance: random.Random, runs: int, noise: float, *steps: tuple[int, float], hang: float = 0.0) -> list[float]:
    """Logs of as many runs that repeat to `noise`. steps: (run, change of the level). hang: autocorrelation."""
    values, rest = [], 0.0
    for run in range(runs):
        rest = hang * rest + chance.gauss(0, noise * math.sqrt(1 - hang**2))
        values.append(rest + math.fsum(step for at, step in steps if run >= at))
    return values


def share(times: int, happens: Callable[[random.Random], bool]) -> float:
    """How often it happens."""
    chance = random.Random(20260401)
    return sum(happens(chance) for _ in range(times)) / times


@pytest.mark.parametrize("runs", [6, 12, 40])
@pytest.mark.parametrize(("noise", "hang"), [(0.003, 0.0), (0.01, 0.3), (0.03, 0.0)])
def test_false_alarms_are_rare(runs: int, noise: float, hang: float) -> None:
    """At most one series in a hundred, where runs repeat three times worse than the margin too."""
    assert share(300, lambda chance: bool(change_points.find(series(chance, runs, noise, hang=hang), MARGIN))) <= 0.01


@pytest.mark.parametrize("step", [0.009, -0.009])
def test_a_step_within_the_margin_is_no_change(step: float) -> None:
    """However well the runs repeat, and however many there are."""
    found = share(100, lambda chance: bool(change_points.find(series(chance, 40, 0.001, (20, step)), MARGIN)))
    assert found == 0


@pytest.mark.parametrize("step", [-0.05, 0.05])
@pytest.mark.parametrize(("runs", "at"), [(6, 3), (12, 9), (40, 3), (40, 20), (40, 37)])
def test_a_step_of_five_percent_is_found_at_its_place(runs: int, at: int, step: float) -> None:
    """With three runs on a side and any number on the other, where runs repeat to half a percent."""

    def exact(chance: random.Random) -> bool:
        return [change.at for change in change_points.find(series(chance, runs, 0.005, (at, step)), MARGIN)] == [at]

    assert share(200, exact) >= 0.95


def test_a_small_step_takes_more_runs() -> None:
    """Two and a half percent behind noise of one: after three runs hardly ever, after thirty mostly."""

    def found_after(runs: int) -> float:
        return share(
            150, lambda chance: bool(change_points.find(series(chance, 20 + runs, 0.01, (20, -0.025)), MARGIN))
        )

    assert found_after(3) < 0.3
    assert found_after(30) > 0.6


def test_levels_that_come_back_are_two_changes() -> None:
    """A driver that was slow for five runs: down, and up again, each with its size."""
    found = change_points.find(series(random.Random(3), 30, 0.003, (12, -0.05), (17, 0.05)), MARGIN)
    assert [change.at for change in found] == [12, 17]
    assert [round(change.log_ratio, 2) for change in found] == [-0.05, 0.05]
    assert all(change.p <= change_points.ALPHA for change in found)


@pytest.mark.parametrize("place", [0, 50, 99, 100, 119])
def test_one_run_far_out_is_no_change(place: int) -> None:
    """Not among hundreds either, whose variance it hardly widens."""

    def alarmed(chance: random.Random) -> bool:
        values = series(chance, 120, 0.003)
        values[place] -= 0.4
        return bool(change_points.find(values, MARGIN))

    assert share(30, alarmed) == 0


def test_equal_values_and_too_few_runs() -> None:
    """A step in equal values stands out, one just beyond the margin does not; each side needs three runs."""
    assert [change.at for change in change_points.find([0.0] * 3 + [0.02] * 3, MARGIN)] == [3]
    assert change_points.find([0.0] * 3 + [0.0102] * 3, MARGIN) == []
    for runs in range(2 * LEAST):
        assert change_points.find([0.0] * (runs // 2) + [1.0] * (runs - runs // 2), MARGIN) == []
