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


@pytest.mark.parametrize(
    ("blocks", "rates"),
    [([(3, 63, 600)], [10.0] * 6), ([(0, 4, 40), (7, 10, 30)], [10.0])],
    ids=["a block over many windows", "a pause"],
)
def test_rates_of_windows(blocks: list[tuple[int, int, int]], rates: list[float]) -> None:
    """A long block has the same rate in each window that it covers; pauses are not in the rate."""
    made = windows([(begin * SECOND, end * SECOND, work) for begin, end, work in blocks], work=1.0, key="k")
    assert [window.number for window in made] == list(range(len(rates)))
    assert [window.rate for window in made] == pytest.approx(rates)


@pytest.mark.parametrize(("covered_s", "kept"), [(4.9, 0), (5.0, 1)])
def test_a_window_half_covered_is_kept(covered_s: float, kept: int) -> None:
    """Below a half, few blocks decide its rate: dropped."""
    assert len(windows([(0, int(covered_s * SECOND), 10)], work=1.0, key="k")) == kept


@pytest.mark.parametrize("end_ns", [5, 4])
def test_a_block_without_time_is_refused(end_ns: int) -> None:
    """It has no rate."""
    with pytest.raises(ValueError, match="no later than"):
        windows([(5, end_ns, 1)], work=1.0, key="k")


@given(
    st.integers(0, 10**15), st.lists(st.tuples(st.integers(0, 10**10), st.integers(1, 4 * 10**10), st.integers(1, 999)))
)
def test_no_work_is_lost_or_made(start_ns: int, parts: list[tuple[int, int, int]]) -> None:
    """Rates are at most those of the blocks, and full windows contain all of the work."""
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
