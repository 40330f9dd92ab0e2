"""From blocks to rates in windows of ten seconds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.stats.windows import WINDOW_NS, Window, windows

SECOND = 1_000_000_000


def test_work_is_divided_by_time() -> None:
    """A block of six iterations from second 8 to 14 gives two of them to the first window and four to the second."""
    blocks = [(0, 8 * SECOND, 16), (8 * SECOND, 14 * SECOND, 6), (14 * SECOND, 20 * SECOND, 12)]
    assert windows(blocks, work=5.0, key="gemm bf16") == (
        Window(0, "gemm bf16", (16 + 2) * 5.0 / 10),
        Window(1, "gemm bf16", (4 + 12) * 5.0 / 10),
    )


def test_a_long_block_fills_many_windows() -> None:
    """A block of a minute has the same rate in each window that it covers."""
    made = windows([(3 * SECOND, 63 * SECOND, 600)], work=1.0, key="k")
    assert [window.number for window in made] == [0, 1, 2, 3, 4, 5]
    assert [window.rate for window in made] == pytest.approx([10.0] * 6)


def test_pauses_are_not_in_the_rate() -> None:
    """Three seconds between two blocks leave a rate of the work over the seven that were measured."""
    made = windows([(0, 4 * SECOND, 40), (7 * SECOND, 10 * SECOND, 30)], work=1.0, key="k")
    assert [window.rate for window in made] == pytest.approx([10.0])


@pytest.mark.parametrize(("covered_s", "kept"), [(4.9, 0), (5.0, 1)])
def test_a_window_half_covered_is_kept(covered_s: float, kept: int) -> None:
    """Below a half, few blocks decide its rate: dropped."""
    assert len(windows([(0, int(covered_s * SECOND), 10)], work=1.0, key="k")) == kept


@pytest.mark.parametrize("end_ns", [5, 4])
def test_a_block_without_time_is_refused(end_ns: int) -> None:
    """It has no rate, and is a defect of whoever measured it."""
    with pytest.raises(ValueError, match="no later than it starts"):
        windows([(5, end_ns, 1)], work=1.0, key="k")


@given(
    st.integers(0, 10**15), st.lists(st.tuples(st.integers(0, 10**10), st.integers(1, 4 * 10**10), st.integers(1, 999)))
)
def test_no_work_is_lost_or_made(start_ns: int, parts: list[tuple[int, int, int]]) -> None:
    """Rates times covered time never exceed the work that was done, and make all of it where every window is full."""
    blocks = []
    at = start_ns
    for pause, length, iterations in parts:
        blocks.append((at + pause, at + pause + length, iterations))
        at += pause + length
    made = windows(blocks, work=2.0, key="k")
    fastest = max((iterations * 2.0 / ((end - start) / 1e9) for start, end, iterations in blocks), default=0.0)
    assert all(0 < window.rate <= fastest * (1 + 1e-9) for window in made)
    assert [window.number for window in made] == sorted({window.number for window in made})
    whole = [(number * WINDOW_NS, (number + 1) * WINDOW_NS, 7) for number in range(3)]
    assert math.fsum(window.rate * 10 for window in windows(whole, work=2.0, key="k")) == pytest.approx(42.0)
