"""Confidence intervals of the mean of a series of times."""

import random

import pytest

from protocol.intervals import MIN_BATCHES, relative_half_width, student_t_975


def correlated(seed: int, count: int, autocorrelation: float) -> list[float]:
    """Times around 100 ms, each pulled towards the one before."""
    source = random.Random(seed)
    value = source.gauss(0, 1) / (1 - autocorrelation**2) ** 0.5
    times = []
    for _ in range(count):
        value = autocorrelation * value + source.gauss(0, 1)
        times.append(100 + value)
    return times


@pytest.mark.parametrize("autocorrelation", [0.0, 0.9])
def test_the_interval_holds_the_true_mean(autocorrelation: float) -> None:
    """In at least 92 % of 300 seeded series, also with autocorrelation."""
    held = 0
    for seed in range(300):
        times = correlated(seed, 600, autocorrelation)
        mean = sum(times) / len(times)
        held += abs(mean - 100) <= relative_half_width(times) * mean
    assert 0.92 <= held / 300 <= 0.995


def test_width_of_the_interval() -> None:
    """Sixteen times the values leave about a quarter. Climbing batch means widen it well beyond shuffled ones."""
    few, many = (relative_half_width(correlated(7, count, 0.0)) for count in (400, 6_400))
    assert few / 8 < many < few / 2
    climbing = [100 + index / 100 for index in range(1_000)]
    shuffled = climbing.copy()
    random.Random(1).shuffle(shuffled)
    assert relative_half_width(climbing) > 5 * relative_half_width(shuffled)


def test_the_width_is_relative_and_every_value_counts() -> None:
    """Seconds and milliseconds give the same, and constant values no width. One slow value counts in any place."""
    times = correlated(3, 500, 0.3)
    assert relative_half_width([time / 1000 for time in times]) == pytest.approx(relative_half_width(times))
    assert relative_half_width([2.5] * 40) == 0.0
    for place in range(27):
        times = [1.0] * 27
        times[place] = 2.0
        assert relative_half_width(times) > 0


@pytest.mark.parametrize(
    ("times", "batches", "what"),
    [([1.0] * 19, 20, "as many values"), ([1.0] * 9, MIN_BATCHES - 1, "at least"), ([0.0] * 20, 20, "above zero")],
)
def test_too_few_values_are_refused(times: list[float], batches: int, what: str) -> None:
    """As are too few batches, and a mean of zero."""
    with pytest.raises(ValueError, match=what):
        relative_half_width(times, batches)


@pytest.mark.parametrize(("degrees", "table"), [(4, 2.7764), (9, 2.2622), (19, 2.0930), (29, 2.0452), (10**6, 1.95997)])
def test_students_t_agrees_with_the_tables(degrees: int, table: float) -> None:
    """The expansion is within 0.3 % of the printed tables."""
    assert student_t_975(degrees) == pytest.approx(table, rel=0.003)
