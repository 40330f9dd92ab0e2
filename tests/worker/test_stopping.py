"""When a measurement ends: target, cap or fixed number. test_coverage.py checks the intervals themselves."""

import itertools
import random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from protocol.intervals import BATCHES, relative_half_width
from protocol.messages import Measurement
from protocol.result import StopReason
from tests.fakes.simulation import white
from worker.stopping import LEAST_ITERATIONS, Stopper

ASKED = Measurement(relative_half_width=0.01, block_s=0.1, warm_up_cap_s=1, min_s=1, max_s=30)


def test_measurement_takes_the_least_time() -> None:
    """Times without any scatter are known at once, and are measured for `min_s` nevertheless."""
    stopper = Stopper(ASKED)
    assert stopper.reason([10.0] * 50, 50, 0.5) is None
    assert stopper.reason([10.0] * 100, 100, 1.0) is StopReason.TARGET


def test_interval_is_evaluated_after_30_percent_more_data() -> None:
    """A lucky look right after an unlucky one does not end measuring."""
    stopper = Stopper(ASKED)
    wild = [5.0, 15.0, 25.0, 8.0] * 25
    assert stopper.reason(wild, 100, 1.0) is None
    calm = [10.0]
    assert stopper.reason(calm * 129, 129, 1.3) is None
    assert stopper.reason(calm * 130, 130, 1.3) is StopReason.TARGET


def test_slow_iterations_are_measured_three_times() -> None:
    """An iteration that is longer than the cap is not judged by a single time."""
    stopper = Stopper(ASKED)
    reasons = [stopper.reason([40_000.0] * n, n, 40.0 * n) for n in range(1, LEAST_ITERATIONS + 1)]
    assert reasons == [None, None, StopReason.TIME_CAP]


def test_give_up_ends_an_interval_far_from_its_target() -> None:
    """The first look foresees more than twice the target; a nearer one is waited for."""
    hasty = msgspec.structs.replace(ASKED, max_s=10, give_up=True)
    for deviation, reason in ((0.5, StopReason.OUT_OF_REACH), (0.05, None)):
        times = list(itertools.islice(white(deviation)(random.Random(1)), 100))
        assert Stopper(hasty).reason(times, 100, 1.0) is reason
        assert Stopper(hasty).reason(times, 100, 0.9) is None
        assert Stopper(ASKED).reason(times, 100, 1.0) is None


def test_give_up_does_not_wait_for_an_impossible_interval() -> None:
    """Fewer than 20 values fit into the cap: the least time and number of iterations are enough."""
    hasty = msgspec.structs.replace(ASKED, give_up=True)
    assert Stopper(hasty).reason([2_000.0] * 3, 3, 6.0) is StopReason.OUT_OF_REACH
    assert Stopper(hasty).reason([2_000.0] * 2, 2, 4.0) is None
    assert Stopper(hasty, least=1).reason([2_000.0], 1, 2.0) is StopReason.OUT_OF_REACH
    assert Stopper(hasty).reason([1_000.0] * 3, 3, 3.0) is None
    assert Stopper(ASKED).reason([2_000.0] * 3, 3, 6.0) is None


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
