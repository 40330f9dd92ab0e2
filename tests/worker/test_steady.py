"""Warm-up ends when times are steady. test_coverage.py simulates noise, drift and steps in whole measurements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.steady import WINDOW, is_steady, theil_sen_slope


def test_step_ends_with_the_window_and_a_single_block_does_not_matter() -> None:
    """A clock that drops keeps warm-up going until the window is past it; one block of twice the time does not."""
    for at in range(2, WINDOW - 1):
        assert not is_steady([10.0] * at + [10.3] * (WINDOW - at), [0] * WINDOW), at
    assert is_steady([10.0] * 4 + [10.3] * WINDOW, [0] * (WINDOW + 4))
    for at in range(WINDOW):
        assert is_steady([10.0] * at + [20.0] + [10.0] * (WINDOW - at - 1), [0] * WINDOW), at


def test_steadiness_needs_a_full_window_without_retries() -> None:
    """Two equal blocks prove nothing, and while the allocator empties its cache, times are those of cudaMalloc."""
    medians = [10.0] * (WINDOW + 2)
    assert not is_steady(medians, [0] * (WINDOW + 1) + [1])
    assert is_steady(medians, [0, 0] + [1] * WINDOW)
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
