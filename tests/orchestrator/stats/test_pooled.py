"""Variances shrunk towards those of all cells of a run, compared with scipy's functions and by simulation."""

import math
import random
from statistics import fmean

import pytest

from orchestrator.stats import pooled
from orchestrator.stats.pooled import Variance


@pytest.mark.parametrize(
    ("x", "digamma", "trigamma"),
    [
        (0.5, -1.9635100260214235, 4.93480220054468),
        (1, -0.5772156649015329, 1.6449340668482266),
        (2.5, 0.7031566406452432, 0.4903577561002349),
        (40, 3.6763273740348428, 0.025315103841291032),
    ],
)
def test_the_derivatives_of_lgamma_agree_with_scipy(x: float, digamma: float, trigamma: float) -> None:
    """digamma, polygamma(1, …), and the inverse of that, at its far ends too."""
    assert pooled.digamma(x) == pytest.approx(digamma, rel=1e-10)
    assert pooled.trigamma(x) == pytest.approx(trigamma, rel=1e-10)
    assert pooled.trigamma_inverse(trigamma) == pytest.approx(x, rel=1e-6)
    for value in (1e-9, 1e9):
        assert pooled.trigamma(pooled.trigamma_inverse(value)) == pytest.approx(value, rel=1e-3)


def drawn(sigmas: list[float], seed: int, launches: int = 3) -> list[Variance]:
    """The variances of cells that have these deviations."""
    chance = random.Random(seed)
    found = [pooled.of_launches([[chance.gauss(0, sigma) for _ in range(launches)]]) for sigma in sigmas]
    return [one for one in found if one is not None]


def test_cells_that_repeat_alike_share_one_variance() -> None:
    """The plain pooled one, with the degrees of all."""
    own = [Variance(1e-4, 2), Variance(2e-4, 2), Variance(3e-4, 4)]
    assert pooled.shrunk(own) == [Variance(pytest.approx((1e-4 * 2 + 2e-4 * 2 + 3e-4 * 4) / 8), 8)] * 3


def test_a_cell_that_repeats_badly_keeps_a_variance_of_its_own() -> None:
    """Its interval is not narrower because of stable cells, and theirs not wider because of it."""
    own = drawn([0.005] * 40 + [0.2], seed=3)
    shrunk = pooled.shrunk(own)
    assert shrunk[-1].value > 10 * fmean(one.value for one in shrunk[:-1])
    assert max(one.value for one in shrunk[:-1]) < 6 * 0.005**2
    assert all(one.degrees < math.fsum(two.degrees for two in own) for one in shrunk)


def test_the_true_variances_are_met_better_than_alone() -> None:
    """Over many cells, shrunk variances are closer to the truth than single ones, on a logarithmic scale."""
    sigmas = [0.01 * math.exp(random.Random(number).gauss(0, 0.5)) for number in range(100)]
    own = drawn(sigmas, seed=11)

    def miss(found: list[Variance]) -> float:
        return fmean([math.log(one.value / sigma**2) ** 2 for one, sigma in zip(found, sigmas, strict=True)])

    assert miss(pooled.shrunk(own)) < miss(own) / 2


def test_one_cell_keeps_its_variance() -> None:
    """One launch has none, and equal launches the least one: a coarse clock is not certainty."""
    assert pooled.shrunk([Variance(4e-4, 2)]) == [Variance(4e-4, 2)]
    assert pooled.shrunk([]) == []
    assert pooled.of_launches([[1.0], [2.0]]) is None
    assert pooled.of_launches([[1.0, 1.0, 1.0]]) == Variance(pooled.LEAST_VARIANCE, 2)
