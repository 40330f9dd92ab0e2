"""The trend of a series and the change over it: simulated series, seeded, and scipy's."""

import math
import random

import pytest

from orchestrator.stats.trend import Point, movement, theil_sen
from tests.fakes.series import AN_HOUR, correlated


def series(seed: int, hours: float, autocorrelation: float, lost: float) -> list[Point]:
    """Forty bins of an AR(1) series of windows that loses `lost` of its standard deviations over the hours."""
    count, per_bin = int(hours * AN_HOUR), math.ceil(hours * AN_HOUR / 40)
    values = correlated(random.Random(seed), count, autocorrelation, 1.0)
    values = [value - lost * place / count for place, value in enumerate(values)]
    bins = [sorted(values[at : at + per_bin]) for at in range(0, count, per_bin)]
    return [Point((place + 0.5) * per_bin / AN_HOUR, one[len(one) // 2]) for place, one in enumerate(bins)]


@pytest.mark.parametrize(("hours", "autocorrelation"), [(0.5, 0.9), (1.0, 0.9), (2.0, 0.5), (2.0, 0.0)])
@pytest.mark.parametrize("lost", [0.0, 3.0])
def test_intervals_hold_the_truth_as_often_as_they_say(hours: float, autocorrelation: float, lost: float) -> None:
    """In 92 % or more of 200 series with and without a ramp, for slope and change."""
    slopes = changes = 0
    for seed in range(200):
        moved = movement(series(seed, hours, autocorrelation, lost), hours)
        slopes += moved.slope.low <= -lost / hours <= moved.slope.high
        changes += moved.change.low <= -lost * 0.8 <= moved.change.high
    assert slopes / 200 >= 0.92
    assert changes / 200 >= 0.92


def test_intervals_are_no_wider_than_they_must_be() -> None:
    """Of independent values, intervals hold the truth in less than 99.5 %, and four times the values halve them."""
    widths = {}
    for hours in (1.0, 4.0):
        moves = [moved for seed in range(150) if (moved := movement(series(seed, hours, 0.0, 0.0), hours))]
        assert sum(moved.change.low <= 0 <= moved.change.high for moved in moves) / 150 < 0.995
        assert sum(moved.slope.low <= 0 <= moved.slope.high for moved in moves) / 150 < 0.995
        widths[hours] = sum(moved.change.high - moved.change.low for moved in moves)
    assert widths[1.0] / widths[4.0] == pytest.approx(2, rel=0.15)


def test_the_slope_is_exact_without_noise_and_ignores_outliers() -> None:
    """A straight line has its own slope; a fifth of the values thrown far away hardly moves it."""
    line = [Point(place / 10, 3.0 - 0.5 * place / 10) for place in range(40)]
    exact = theil_sen(line)
    assert (exact.value, exact.low, exact.high) == pytest.approx((-0.5, -0.5, -0.5))
    odd = [Point(point.at_h, point.value + (50.0 if place % 5 == 0 else 0.0)) for place, point in enumerate(line)]
    assert theil_sen(odd).value == pytest.approx(-0.5, abs=0.5)
    with pytest.raises(ValueError, match="three points"):
        theil_sen(line[:2])


@pytest.mark.parametrize(
    ("slope", "noise", "number", "seed", "theirs"),
    [
        (0.3, 1.0, 48, 7, (0.2651314286, 0.1605, 0.3733636364)),
        (-0.8, 0.4, 25, 8, (-0.8318941176, -0.9784285714, -0.6894545455)),
    ],
)
def test_the_slope_agrees_with_scipy(
    slope: float, noise: float, number: int, seed: int, theirs: tuple[float, float, float]
) -> None:
    """That of scipy.stats.theilslopes 1.17; the interval holds theirs, which takes values for independent."""
    chance = random.Random(seed)
    at_h = [place / 6 for place in range(number)]
    points = [Point(at, round(100 + slope * at + chance.gauss(0, noise), 3)) for at in at_h]
    found = theil_sen(points)
    assert found.value == pytest.approx(theirs[0], abs=1e-9)
    assert found.low < theirs[1] < theirs[2] < found.high
