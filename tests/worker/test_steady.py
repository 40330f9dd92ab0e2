"""Warm-up ends when times are steady, and not before: simulated series, each with its seed."""

import math
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.steady import WINDOW, is_steady, theil_sen_slope

Series = Callable[[random.Random], Iterator[float]]


def white(deviation: float) -> Series:
    """Independent noise around 10 ms."""

    def generate(source: random.Random) -> Iterator[float]:
        while True:
            yield 10 * (1 + source.gauss(0, deviation))

    return generate


def autocorrelated(deviation: float, correlation: float) -> Series:
    """Noise that resembles its neighbour."""

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


def test_noise_of_one_percent_still_comes_to_an_end() -> None:
    """A noisier device is let through within a few more blocks."""
    assert reached(white(0.01), WINDOW + 20) > 0.95


@pytest.mark.parametrize("each", [0.002, 0.004, -0.002, -0.01])
def test_drift_is_not_steady(each: float) -> None:
    """Times that rise or fall by 0.2 % a block or more are never taken for steady."""
    assert reached(ramp(each), 60) < 0.02


def test_step_within_the_window_is_not_steady_until_it_has_left() -> None:
    """A clock that drops in the middle of the window keeps warm-up going until the window is past it."""
    for at in range(2, WINDOW - 1):
        medians = [10.0] * at + [10.3] * (WINDOW - at)
        assert not is_steady(medians, [0] * WINDOW), at
    assert is_steady([10.0] * 4 + [10.3] * WINDOW, [0] * (WINDOW + 4))


def test_single_disturbed_block_does_not_matter() -> None:
    """One block that took twice as long does not keep a cell from being measured."""
    for at in range(WINDOW):
        medians = [10.0] * WINDOW
        medians[at] = 20.0
        assert is_steady(medians, [0] * WINDOW), at


def test_allocator_that_retried_within_the_window_is_not_steady() -> None:
    """As long as the allocator has to empty its cache, times are those of cudaMalloc."""
    medians = [10.0] * (WINDOW + 2)
    assert not is_steady(medians, [0] * (WINDOW + 1) + [1])
    assert is_steady(medians, [0, 0] + [1] * WINDOW)


def test_fewer_blocks_than_the_window_are_never_steady() -> None:
    """Two equal blocks prove nothing."""
    assert not is_steady([10.0] * (WINDOW - 1), [0] * (WINDOW - 1))


def test_medians_without_their_retries_are_refused() -> None:
    """The two series belong together."""
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


def test_slope_ignores_an_outlier() -> None:
    """One wild value among ten moves the slope of a line hardly at all."""
    assert theil_sen_slope([0, 1, 2, 3, 1000, 5, 6, 7, 8, 9]) == pytest.approx(1.0, abs=0.1)


def test_slope_of_one_value_is_refused() -> None:
    """There is none."""
    with pytest.raises(ValueError, match="two values"):
        theil_sen_slope([1.0])
