"""Effect sizes and the rank test, against the same cases in scipy 1.17."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.stats.effect_size import cliffs_delta, cohens_d, mann_whitney_p

SIX = [1.0, 2.1, 2.9, 4.2, 5.1, 6.3]
FIVE = [2.0, 3.2, 5.9, 7.7, 8.1]
VALUES = st.lists(st.integers(min_value=0, max_value=20).map(float), min_size=5, max_size=9)


def test_mann_whitney_agrees_with_scipy() -> None:
    """mannwhitneyu, exact for few values, else asymptotic with ties and its correction for continuity."""
    assert mann_whitney_p(SIX, FIVE) == pytest.approx(0.32900432900432897)
    chance = random.Random(7)
    before = [chance.randrange(0, 40) / 8 for _ in range(30)]
    after = [chance.randrange(4, 44) / 8 for _ in range(25)]
    assert mann_whitney_p(before, after) == pytest.approx(0.04877008812573918, rel=1e-9)


@given(VALUES, VALUES)
def test_mann_whitney_counts_every_arrangement_of_ties(before: list[float], after: list[float]) -> None:
    """As an enumeration of all arrangements of the ranks does."""
    both = sorted([*before, *after])
    ranks = [(both.index(value) + len(both) - both[::-1].index(value) + 1) / 2 for value in (*before, *after)]
    middle = len(before) * (len(both) + 1) / 2
    off = abs(sum(ranks[: len(before)]) - middle)
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(before))]
    assert mann_whitney_p(before, after) == pytest.approx(
        sum(abs(total - middle) >= off - 1e-9 for total in sums) / len(sums)
    )


def test_mann_whitney_needs_five_launches_a_side() -> None:
    """With three its smallest p is 0.10, whatever was measured."""
    assert mann_whitney_p([1, 2, 3, 4], [11, 12, 13, 14, 15]) is None
    assert mann_whitney_p([1, 2, 3, 4, 5], [11, 12, 13, 14, 15]) == pytest.approx(2 / 252)


def test_effect_sizes() -> None:
    """Means 2 and 5 with variances 1; 6 of 9 pairs larger, 1 smaller, 2 ties. Some samples have none."""
    assert cohens_d([1, 2, 3], [4, 5, 6]) == pytest.approx(3.0)
    assert cohens_d(SIX, FIVE) == pytest.approx(0.7657694793155317, rel=1e-12)
    assert cohens_d([1, 1], [2, 2]) is None
    assert cohens_d([1], [2, 3]) is None
    assert cliffs_delta([1, 2, 3], [2, 3, 4]) == pytest.approx((6 - 1) / 9)
    assert cliffs_delta([1, 2], [3, 4]) == 1.0
    assert cliffs_delta([3, 4], [1, 2]) == -1.0
    assert cliffs_delta([], [1]) is None
