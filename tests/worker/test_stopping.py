"""Measuring ends when the mean is known, at the cap, or at the number asked for: simulated series with seeds."""

import math
import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.intervals import BATCHES, relative_half_width
from protocol.messages import Measurement
from protocol.result import StopReason
from worker.stopping import LEAST_ITERATIONS, Stopper

ASKED = Measurement(relative_half_width=0.01, block_s=0.1, warm_up_cap_s=1, min_s=1, max_s=30)
ITERATION_MS = 10.0

Noise = Callable[[random.Random, float], float]


def white(source: random.Random, _: float) -> float:
    """Independent deviations of 5 %."""
    return source.gauss(0, 0.05)


def autocorrelated(source: random.Random, previous: float) -> float:
    """Deviations of 5 % that resemble their neighbours."""
    return 0.9 * previous + source.gauss(0, 0.05 * math.sqrt(1 - 0.81))


def with_spikes(source: random.Random, _: float) -> float:
    """Every fiftieth iteration takes twice as long; the deviations have mean zero all the same."""
    return source.gauss(0, 0.01) + (1.0 if source.random() < 0.02 else 0.0) - 0.02


def measure(noise: Noise, seed: int) -> tuple[list[float], StopReason]:
    """Times in blocks of ten until the stopper is content. Their true mean is ITERATION_MS."""
    source, stopper, deviation = random.Random(seed), Stopper(ASKED), 0.0
    times: list[float] = []
    while True:
        for _ in range(10):
            deviation = noise(source, deviation)
            times.append(ITERATION_MS * (1 + deviation))
        reason = stopper.reason(times, len(times), sum(times) / 1e3)
        if reason is not None:
            return times, reason


@pytest.mark.parametrize(("noise", "at_least"), [(white, 0.9), (autocorrelated, 0.85), (with_spikes, 0.8)])
def test_interval_at_the_end_holds_the_true_mean(noise: Noise, at_least: float) -> None:
    """Stopping by the interval leaves its coverage near 95 %, also where iterations resemble their neighbours.

    Rare spikes of 100 % are the weak spot (0.84 here): a series that happened to see few of them stops early.
    """
    covered = 0
    for seed in range(200):
        times, _ = measure(noise, seed)
        mean = sum(times) / len(times)
        covered += abs(mean - ITERATION_MS) <= relative_half_width(times) * mean
    assert covered / 200 >= at_least


def test_target_ends_measuring_with_an_interval_as_narrow_as_asked_for() -> None:
    """White noise of 5 % needs about a hundred iterations for 1 %, and gets them."""
    times, reason = measure(white, seed=1)
    assert reason is StopReason.TARGET
    assert relative_half_width(times) <= ASKED.relative_half_width


def test_time_cap_ends_a_series_that_never_settles() -> None:
    """A ramp widens its own interval, so that it is measured to the cap and says so."""
    stopper, times = Stopper(ASKED), list[float]()
    reason = None
    while reason is None:
        times += [10.0 + 0.01 * len(times)] * 10
        reason = stopper.reason(times, len(times), sum(times) / 1e3)
    assert reason is StopReason.TIME_CAP
    assert sum(times) / 1e3 >= ASKED.max_s


def test_nothing_ends_before_the_least_time() -> None:
    """Times without any scatter are known at once, and are measured for `min_s` nevertheless."""
    stopper = Stopper(ASKED)
    assert stopper.reason([10.0] * 50, 50, 0.5) is None
    assert stopper.reason([10.0] * 100, 100, 1.0) is StopReason.TARGET


def test_interval_is_looked_at_only_after_30_percent_more_data() -> None:
    """A lucky look right after an unlucky one does not end measuring."""
    stopper = Stopper(ASKED)
    wild = [5.0, 15.0, 25.0, 8.0] * 25
    assert stopper.reason(wild, 100, 1.0) is None
    calm = [10.0]
    assert stopper.reason(calm * 129, 129, 1.3) is None
    assert stopper.reason(calm * 130, 130, 1.3) is StopReason.TARGET


def test_slow_iterations_are_measured_three_times_whatever_the_cap() -> None:
    """An iteration that is longer than the cap is not judged by a single time."""
    stopper = Stopper(ASKED)
    reasons = [stopper.reason([40_000.0] * n, n, 40.0 * n) for n in range(1, LEAST_ITERATIONS + 1)]
    assert reasons == [None, None, StopReason.TIME_CAP]


@given(asked=st.integers(1, 500), block=st.integers(1, 50), elapsed_s=st.floats(0, 1e6))
def test_fixed_number_is_reached_whatever_the_time(asked: int, block: int, elapsed_s: float) -> None:
    """With `-i N` neither target nor cap count."""
    stopper = Stopper(msgspec.structs.replace(ASKED, iterations=asked))
    done = 0
    while done < asked:
        assert stopper.reason([1.0] * done, done, elapsed_s) is None
        done += min(block, asked - done)
    assert stopper.reason([1.0] * done, done, elapsed_s) is StopReason.FIXED


@given(
    times=st.lists(st.floats(0.001, 1e5), min_size=1, max_size=200),
    elapsed_s=st.floats(0, 100),
    group=st.integers(1, 10),
)
def test_one_look_follows_the_rules(times: list[float], elapsed_s: float, group: int) -> None:
    """Target only from min_s and 20 values on, and with the interval it claims; cap only from max_s on."""
    reason = Stopper(ASKED).reason(times, len(times) * group, elapsed_s)
    if reason is StopReason.TARGET:
        assert elapsed_s >= ASKED.min_s
        assert len(times) >= BATCHES
        assert relative_half_width(times) <= ASKED.relative_half_width
    elif elapsed_s >= ASKED.max_s and len(times) * group >= LEAST_ITERATIONS:
        assert reason is StopReason.TIME_CAP
    else:
        assert reason is None
