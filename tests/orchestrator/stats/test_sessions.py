"""The spread between sessions, learned from runs that nobody measured."""

import math
import random

import pytest

from orchestrator.stats import sessions

PRIOR = 0.003


def runs(
    count: int, spread: float, *, cells: int = 20, launches: int = 3, noise: float = 0.005
) -> list[dict[str, list[float]]]:
    """Sessions that lie so far apart, of cells whose launches scatter by `noise`."""
    chance = random.Random(5)
    found = []
    for _ in range(count):
        level = chance.gauss(0, spread)
        found.append(
            {f"cell {at}": [math.exp(level + chance.gauss(0, noise)) for _ in range(launches)] for at in range(cells)}
        )
    return found


def test_the_spread_of_many_sessions_is_met() -> None:
    """Within a fifth from a hundred sessions; what launches scatter by is no part of it."""
    assert sessions.learned(runs(100, 0.01), PRIOR) == pytest.approx(0.01, rel=0.2)
    assert sessions.learned(runs(100, 0.0), PRIOR) < 0.001
    assert sessions.learned(runs(100, 0.01, cells=1, launches=3, noise=0.03), PRIOR) == pytest.approx(0.01, rel=0.5)


def test_three_sessions_move_the_prior_by_a_third() -> None:
    """Two degrees of freedom beside four."""
    found = sessions.learned([{"a": [1.0]}, {"a": [math.exp(0.01)]}, {"a": [math.exp(0.02)]}], PRIOR)
    assert found == pytest.approx(math.sqrt((4 * PRIOR**2 + 2 * 0.01**2) / 6))


def test_fewer_than_three_sessions_or_cells_of_their_own_say_nothing() -> None:
    """The prior stands."""
    assert sessions.learned(runs(2, 0.01), PRIOR) is None
    assert sessions.learned([{"a": [1.0]}, {"b": [1.0]}, {"a": [1.0]}], PRIOR) is None
    assert sessions.learned([], PRIOR) is None


def test_a_session_without_its_cells_does_not_hide_the_others() -> None:
    """All cells of one were throttled, and each other one lacks a cell: the rest says how far they lie apart."""
    found = runs(12, 0.01, noise=0.0001)
    whole = sessions.learned(found, PRIOR)
    assert sessions.learned([*found[:6], {}, *found[6:]], PRIOR) == whole
    for at, one in enumerate(found):
        del one[f"cell {at % 6}"]
    assert sessions.learned(found, PRIOR) == pytest.approx(whole, rel=0.05)
