"""From raw times to figures."""

import itertools
import random
from statistics import median

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.stats import launch, percentiles
from protocol import floats
from protocol.cell import Cell, Precision, Workload
from protocol.result import Block, Result
from tests.fakes.results import result

CELL = Cell(devices=("GPU-0",), model="resnet50", workload=Workload.INFERENCE, precision=Precision.FP32, batch_size=8)


@given(st.lists(st.floats(min_value=0.001, max_value=1e6), min_size=1, max_size=400))
def test_a_summary_keeps_its_order(times: list[float]) -> None:
    """Minimum, median, percentiles and maximum never pass each other, whatever the values."""
    summary = percentiles.summarise(times)
    assert summary.count == len(times)
    points = [
        point for point in (summary.min_ms, summary.p50_ms, summary.p95_ms, summary.p99_ms, summary.max_ms) if point
    ]
    assert all(low <= high * (1 + 1e-12) for low, high in itertools.pairwise(points))
    assert summary.min_ms <= summary.mean_ms * (1 + 1e-9)


def test_percentiles_are_interpolated() -> None:
    """Of 0, 1, …, 100 they are the numbers themselves. Without values there is no summary."""
    summary = percentiles.summarise([float(value) for value in range(101)])
    assert (summary.p50_ms, summary.p95_ms) == (50.0, 95.0)
    assert summary.std_ms == pytest.approx(29.3, abs=0.01)
    assert percentiles.summarise([]) is None


def test_outliers_are_counted_and_kept() -> None:
    """One iteration of ten times the time still is the maximum and part of the mean."""
    chance = random.Random(1)
    summary = percentiles.summarise([chance.gauss(10, 0.1) for _ in range(200)] + [100.0])
    assert (summary.outliers, summary.max_ms) == (1, 100.0)
    assert summary.mean_ms > 10.3


@pytest.mark.parametrize(
    ("others", "outliers"), [([-2.0, 12.0], 0), ([-2.1, 12.0], 1), ([-2.0, 12.1], 1), ([-9.0, -8.0, 20.0, 30.0], 4)]
)
def test_outliers_lie_beyond_either_fence(others: list[float], outliers: int) -> None:
    """Three interquartile ranges below and above: quartiles of 4 and 6 have fences at -2 and 12."""
    assert percentiles.summarise([*others, *[4.0] * 20, *[5.0] * 20, *[6.0] * 20]).outliers == outliers


def test_throughput_is_items_over_total_time() -> None:
    """Of a quick and a slow block, throughput is all items over all time, not the mean of the two rates."""
    second = 1_000_000_000
    blocks = (
        Block(start_ns=0, enqueued_ns=0, end_ns=second, iterations=100),
        Block(start_ns=5 * second, enqueued_ns=5 * second, end_ns=8 * second, iterations=100),
    )
    figures = launch.of_launch(msgspec.structs.replace(result(CELL), blocks=blocks))
    assert figures.iterations == 200
    assert figures.throughput == pytest.approx(200 * 8 / 4)


def of_cell(*results: Result) -> launch.CellFigures:
    """The figures of a cell of these launches."""
    return launch.of_cell(results, [launch.of_launch(one) for one in results])


def test_a_cell_is_the_median_of_its_launches() -> None:
    """Of three launches, one of them slow, not the mean of all iterations."""
    results = [result(CELL, forward_ms=forward_ms) for forward_ms in (10.0, 10.1, 30.0)]
    figures = of_cell(*results)
    alone = [launch.of_launch(one) for one in results]
    assert figures.launches == 3
    assert figures.means_ms["forward"] == median(one.means_ms["forward"] for one in alone)
    assert figures.means_ms["forward"] == pytest.approx(10.1, rel=0.01)
    assert figures.throughput == median(one.throughput for one in alone if one.throughput)
    assert figures.launch_spread_percent > 50
    assert figures.pooled["forward"].count == 1200


def test_drift_compares_the_halves() -> None:
    """Two percent longer is two percent; too few values have none. One drifting launch makes the cell drift."""
    assert percentiles.drift_percent([10.0] * 50 + [10.2] * 50) == pytest.approx(2.0)
    assert percentiles.drift_percent([10.0] * 100) == 0.0
    assert percentiles.drift_percent([10.0] * 9) is None
    climbing = [10.0] * 200 + [10.5] * 200
    packed = {name: floats.pack(climbing) for name in ("forward", "iteration")}
    drifting = msgspec.structs.replace(result(CELL), series=packed)
    assert of_cell(result(CELL), drifting, result(CELL)).drifting is True
    assert of_cell(result(CELL)).drifting is False


def test_percentiles_and_intervals_need_enough_values() -> None:
    """4 values have a median alone, 5 an interval, 20 a p95, 3000 a p99.9."""
    assert launch.of_launch(result(CELL, blocks=1, iterations=4)).relative_half_width is None
    assert all(
        0 < launch.of_launch(result(CELL, blocks=1, iterations=count)).relative_half_width < 0.01 for count in (5, 20)
    )
    sizes = (19, 20, 299, 300, 2999, 3000)
    few, enough, under, over, less, many = (percentiles.summarise([float(at) for at in range(size)]) for size in sizes)
    assert (few.p50_ms, few.p95_ms, few.p99_ms) == (9.0, None, None)
    assert (enough.p95_ms, enough.p99_ms) == (pytest.approx(18.05), None)
    assert (under.p99_ms, over.p99_ms, less.p99_9_ms) == (None, pytest.approx(296.01), None)
    assert many.p99_9_ms == pytest.approx(2996.001)
