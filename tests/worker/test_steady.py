"""Warm-up ends when times are steady, and not before: simulated series, each with its seed."""

import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.simulation import Series, white
from worker.steady import WINDOW, is_steady, theil_sen_slope


def autocorrelated(deviation: float, correlation: float) -> Series:
    """Noise that resembles its neighbour, from the level on."""

    def generate(source: random.Random) -> Iterator[float]:
        state = 0.0
        while True:
            state = correlation * state + source.gauss(0, deviation * math.sqrt(1 - correlation**2))
            yield 10 * (1 + state)

    return generate


def ramp(each: float, deviation: float = 0.001) -> Series:
    """Every block takes longer than the one before, by the share `each`."""

    def generate(source: random.Random) -> Iterator[float]:
        level = 10.0
        while True:
            level *= 1 + each
            yield level * (1 + source.gauss(0, deviation))

    return generate


def blocks_until_steady(series: Series, seed: int, cap: int = 60) -> int | None:
    """After how many blocks warm-up would end; None if the cap comes first."""
    values = series(random.Random(seed))
    medians: list[float] = []
    for _ in range(cap):
        medians.append(next(values))
        if is_steady(medians, [0] * len(medians)):
            return len(medians)
    return None


def reached(series: Series, within: int) -> float:
    """Share of 200 seeds that are steady within so many blocks."""
    ends = [blocks_until_steady(series, seed, within) for seed in range(200)]
    return sum(end is not None for end in ends) / len(ends)


@pytest.mark.parametrize("series", [white(0.001), white(0.003), autocorrelated(0.003, 0.9)])
def test_quiet_series_is_steady_as_soon_as_the_window_is_full(series: Series) -> None:
    """Noise as GPUs show it (0.1 to 0.3 % between blocks), also autocorrelated, ends warm-up at once."""
    assert reached(series, WINDOW) > 0.8
    assert reached(series, WINDOW + 6) == 1.0


@pytest.mark.parametrize(
    ("series", "within", "least", "most"),
    [
        (white(0.01), WINDOW + 20, 0.95, 1.0),
        *((ramp(each), 60, 0.0, 0.02) for each in (0.002, 0.004, -0.002, -0.01)),
    ],
)
def test_noise_ends_and_drift_does_not(series: Series, within: int, least: float, most: float) -> None:
    """Noise of 1 % costs a few more blocks. Times that drift by 0.2 % a block or more are never steady."""
    assert least <= reached(series, within) <= most


def test_step_ends_with_the_window_and_a_single_block_does_not_matter() -> None:
    """A clock that drops keeps warm-up going until the window is past it; one block of twice the time does not."""
    for at in range(2, WINDOW - 1):
        assert not is_steady([10.0] * at + [10.3] * (WINDOW - at), [0] * WINDOW), at
    assert is_steady([10.0] * 4 + [10.3] * WINDOW, [0] * (WINDOW + 4))
    for at in range(WINDOW):
        assert is_steady([10.0] * at + [20.0] + [10.0] * (WINDOW - at - 1), [0] * WINDOW), at


def test_allocator_that_retried_within_the_window_is_not_steady() -> None:
    """As long as the allocator has to empty its cache, times are those of cudaMalloc."""
    medians = [10.0] * (WINDOW + 2)
    assert not is_steady(medians, [0] * (WINDOW + 1) + [1])
    assert is_steady(medians, [0, 0] + [1] * WINDOW)


def test_steadiness_needs_a_full_window_and_its_retries() -> None:
    """Two equal blocks prove nothing, and the two series belong together."""
    assert not is_steady([10.0] * (WINDOW - 1), [0] * (WINDOW - 1))
    with pytest.raises(ValueError, match="retries"):
        is_steady([10.0], [])


@given(st.lists(st.floats(0.01, 1e4), min_size=WINDOW, max_size=WINDOW), st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(medians: list[float], scale: float) -> None:
    """Steadiness is relative: microseconds give the answer that milliseconds give (but for rounding at the limit)."""
    shaken = [median * (1 + 1e-9 * index) for index, median in enumerate(medians)]
    if is_steady(medians, [0] * WINDOW) == is_steady(shaken, [0] * WINDOW):
        scaled = [median * scale for median in medians]
        assert is_steady(scaled, [0] * WINDOW) == is_steady(medians, [0] * WINDOW)


@given(st.floats(-100, 100), st.floats(-10, 10), st.integers(2, 20))
def test_slope_of_a_line_is_its_slope(start: float, slope: float, length: int) -> None:
    """Theil-Sen is exact where there is no noise."""
    assert theil_sen_slope([start + slope * x for x in range(length)]) == pytest.approx(slope, abs=1e-9)


def test_slope_ignores_an_outlier_and_needs_two_values() -> None:
    """One wild value among ten hardly moves the slope of a line."""
    assert theil_sen_slope([0, 1, 2, 3, 1000, 5, 6, 7, 8, 9]) == pytest.approx(1.0, abs=0.1)
    with pytest.raises(ValueError, match="two values"):
        theil_sen_slope([1.0])
