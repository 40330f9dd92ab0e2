"""The measuring loop on the host's clock: what is run, what is kept, what is reported meanwhile."""

import itertools
import time
from collections.abc import Callable

import msgspec
import pytest

from protocol import floats
from protocol.failure import Phase
from protocol.messages import Measurement
from protocol.result import LoadWindow, MeasuredIterations, SteadyState, StopReason, WarmUp
from tests.fakes.assignments import Listener
from worker import measure
from worker.measure import Work
from worker.steady import WINDOW
from worker.timing import HostClock

QUICK = Measurement(relative_half_width=0.02, block_s=0.01, warm_up_cap_s=0.1, min_s=0.05, max_s=0.2)


class CoarseClock(HostClock):
    """A host clock that asks for spans of a millisecond."""

    shortest_span_ms = 1.0


def spin(milliseconds: float) -> Callable[[], None]:
    def step() -> None:
        end = time.perf_counter_ns() + milliseconds * 1e6
        while time.perf_counter_ns() < end:
            pass

    return step


def consistent(result: MeasuredIterations, names: set[str]) -> list[float]:
    """The iteration times, after checking that blocks and series tell the same story."""
    series = {name: floats.unpack(data) for name, data in result.series.items()}
    assert set(series) == names | {"iteration"}
    iterations = sum(block.iterations for block in result.blocks)
    assert {len(values) * result.group for values in series.values()} == {iterations}
    for values in zip(series["iteration"], *(series[name] for name in sorted(names)), strict=True):
        assert values[0] == pytest.approx(sum(values[1:]), rel=1e-5)
    wall_ms = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e6
    assert sum(series["iteration"]) * result.group <= wall_ms * 1.001
    ends = [block.end_ns for block in result.blocks]
    assert all(block.start_ns >= end for block, end in zip(result.blocks[1:], ends, strict=False))
    return series["iteration"]


def measure_both(
    work: Work, measurement: Measurement = QUICK, clock: HostClock | None = None, listener: Listener | None = None
) -> tuple[WarmUp, MeasuredIterations]:
    clock, stage = clock or HostClock(), (listener or Listener()).stage
    facts, iteration_ms = measure.warm_up(work, clock, measurement, stage)
    return facts, measure.measured(work, clock, measurement, stage, iteration_ms)


def test_adaptive_measurement_keeps_every_iteration() -> None:
    """Blocks, series and steps agree, and the result has the reason why it ended."""
    work = Work({"forward": spin(0.2), "backward": spin(0.4)})
    result = measure.measured(work, HostClock(), QUICK, Listener().stage, iteration_ms=0.6)
    consistent(result, {"forward", "backward"})
    assert result.stop_reason in (StopReason.TARGET, StopReason.TIME_CAP)
    assert result.launch_bound is None
    assert result.group == 1


def test_iteration_of_several_passes_is_one_value_in_each_series() -> None:
    """A step that is done once for each of three objectives is the sum of the three."""
    calls: list[str] = []
    lasting = itertools.cycle([0.1, 0.2, 0.4])

    def forward() -> None:
        calls.append("forward")
        spin(next(lasting))()

    work = Work({"forward": forward, "backward": lambda: calls.append("backward")}, passes=3)
    fixed = msgspec.structs.replace(QUICK, warm_up_iterations=2, iterations=5)
    facts, result = measure_both(work, fixed)
    assert facts.iterations == 2
    assert calls == ["forward", "backward"] * 3 * (2 + 5)
    assert len(consistent(result, {"forward", "backward"})) == 5
    assert all(value >= 0.7 for value in floats.unpack(result.series["forward"]))


@pytest.mark.parametrize(("waits", "bound"), [(False, True), (True, None)])
def test_launch_bound_is_unknown_where_steps_wait(waits: bool, bound: bool | None) -> None:
    """Where a step waits for the device, the end of the block does not show who waited for whom."""

    class AheadClock(HostClock):
        ahead_of_device = True

    work = Work({"forward": spin(0.2)}, waits=waits)
    found = measure.measured(work, AheadClock(), QUICK, Listener().stage, iteration_ms=0.2)
    assert found.launch_bound is bound
    assert (found.host_share is None) == waits


@pytest.mark.parametrize("asked", [1, 7, 40])
def test_fixed_numbers_of_iterations_are_done_exactly(asked: int) -> None:
    """`-w N -i N` runs N and N iterations, whatever the time."""
    calls: list[None] = []
    measurement = msgspec.structs.replace(QUICK, warm_up_iterations=asked, iterations=asked)
    facts, result = measure_both(Work({"forward": lambda: calls.append(None)}), measurement)
    assert (facts.iterations, facts.steady_state) == (asked, SteadyState.FIXED)
    assert (facts.second_iteration_ms is None) == (asked == 1)
    assert len(calls) == 2 * asked
    assert len(consistent(result, {"forward"})) == asked
    assert result.stop_reason is StopReason.FIXED


@pytest.mark.parametrize("asked", [1, 97, 100])
def test_groups_divide_a_fixed_number_of_iterations(asked: int) -> None:
    """Also where it is prime."""
    calls: list[None] = []
    work, measurement = Work({"forward": lambda: calls.append(None)}), msgspec.structs.replace(QUICK, iterations=asked)
    result = measure.measured(work, CoarseClock(), measurement, Listener().stage, iteration_ms=0.1)
    assert len(calls) == asked
    consistent(result, {"forward"})


def test_groups_of_short_iterations() -> None:
    """A span of ten iterations of 0.1 ms is kept as the time of one; of several passes a span covers one."""
    work = Work({"forward": spin(0.01)}, passes=2)
    result = measure.measured(work, CoarseClock(), QUICK, Listener().stage, iteration_ms=0.02)
    assert result.group == 1
    consistent(result, {"forward"})
    work = Work({"forward": spin(0.1)})
    result = measure.measured(work, CoarseClock(), QUICK, Listener().stage, iteration_ms=0.1)
    assert result.group == 10
    assert all(value >= 0.1 for value in consistent(result, {"forward"}))


def test_no_warm_up_at_all_is_still_one_iteration() -> None:
    """`-w 0` cannot skip the first iteration: it is run and reported."""
    measurement = msgspec.structs.replace(QUICK, warm_up_iterations=0)
    facts, _ = measure.warm_up(Work({"forward": spin(0)}), HostClock(), measurement, Listener().stage)
    assert facts.iterations == 1


def test_slow_iterations_end_soon_after_the_caps() -> None:
    """An iteration longer than both caps is run twice to warm up and three times to measure."""
    measurement = Measurement(relative_half_width=0.01, block_s=0.005, warm_up_cap_s=0.01, min_s=0.005, max_s=0.01)
    facts, result = measure_both(Work({"forward": spin(30)}), measurement)
    assert (facts.steady_state, facts.iterations) == (SteadyState.NONE, 2)
    assert len(consistent(result, {"forward"})) == 3
    assert result.stop_reason is StopReason.TIME_CAP


def test_first_and_second_iteration_stand_apart() -> None:
    """One-time costs are in the time of the first iteration, and in no other."""
    cold = iter([20.0])

    def step() -> None:
        spin(next(cold, 0.1))()

    work = Work({"forward": step})
    facts, iteration_ms = measure.warm_up(work, HostClock(), QUICK, Listener().stage)
    assert facts.first_iteration_ms >= 20.0 > iteration_ms
    assert facts.second_iteration_ms >= 0.1


def test_warm_up_ends_when_times_are_steady() -> None:
    """A clock whose spans are all alike ends it with the window's last block."""

    class EvenClock(HostClock):
        def finish(self) -> "measure.TimedBlock":
            block = super().finish()
            return measure.TimedBlock(block.start_ns, block.enqueued_ns, block.end_ns, [1.0] * len(block.spans_ms))

    patient = msgspec.structs.replace(QUICK, block_s=0.001, warm_up_cap_s=30)
    blocks: list[None] = []
    work = Work({"forward": spin(0.01)}, prepare=lambda: blocks.append(None))
    facts, _ = measure.warm_up(work, EvenClock(), patient, Listener().stage)
    assert facts.steady_state is SteadyState.REACHED
    assert len(blocks) == 2 + WINDOW


def test_allocator_that_keeps_retrying_is_warmed_up_to_the_cap() -> None:
    """Each block that made the allocator try again starts the window anew."""
    count = iter(range(1_000_000))
    work = Work({"forward": spin(0.1)}, retries=lambda: next(count))
    facts, _ = measure.warm_up(work, HostClock(), QUICK, Listener().stage)
    assert facts.steady_state is SteadyState.NONE


def test_iterations_that_need_preparation_are_measured_one_by_one() -> None:
    """`prepare` precedes every single iteration, and is not timed."""
    order: list[str] = []
    work = Work(
        {"load": lambda: order.append("load")},
        prepare=lambda: order.append("prepare") or time.sleep(0.02),
        one_by_one=True,
    )
    measurement = msgspec.structs.replace(QUICK, iterations=4)
    result = measure.measured(work, CoarseClock(), measurement, Listener().stage, iteration_ms=0.01)
    assert order == ["prepare", "load"] * 4
    assert all(value < 20 for value in consistent(result, {"load"}))


def test_progress_is_reported_at_most_ten_times_a_second() -> None:
    """Hundreds of blocks a second do not become hundreds of messages."""
    listener = Listener()
    measurement = msgspec.structs.replace(QUICK, block_s=0.001, max_s=0.4, relative_half_width=1e-9)
    begin = time.monotonic()
    measure_both(Work({"forward": spin(0.05)}), measurement, listener=listener)
    took_s = time.monotonic() - begin
    assert listener.phases == [Phase.MEASURE]
    assert 3 <= len(listener.progress) <= took_s / 0.1 + 2
    assert all(0 <= fraction <= 1 for _, fraction in listener.progress)


def test_ledger_has_both_phases() -> None:
    """Warm-up and measurement are entries of their own."""
    listener = Listener()
    _, result = measure_both(Work({"forward": spin(1)}), listener=listener)
    ledger = listener.stage.ledger()
    assert ledger.warm_up_ms >= 2
    assert ledger.measure_ms >= sum(consistent(result, {"forward"}))


def window_of(
    work: Work, measurement: Measurement, *, since_s: float = 0.0, clock: HostClock | None = None
) -> LoadWindow:
    """Measure, then load. since_s: how long before the first measured block the first iteration had ended."""
    clock, stage = clock or HostClock(), Listener().stage
    result = measure.measured(work, clock, measurement, stage, iteration_ms=1.0)
    since_ns = result.blocks[0].start_ns - round(since_s * 1e9)
    found = measure.load_window(work, clock, measurement, stage, result, since_ns=since_ns)
    assert found is not None
    assert found.end_ns >= result.blocks[-1].end_ns
    assert found.end_ns - found.start_ns >= measurement.load_s * 1e9
    assert found.start_ns >= since_ns + measure.SETTLING_NS
    return found


LOADED = msgspec.structs.replace(QUICK, iterations=20, load_s=0.2)


def test_load_goes_on_until_the_window_is_full() -> None:
    """It begins half a second after the first iteration, lasts as long as requested, and counts its iterations."""
    calls: list[None] = []
    step = spin(1)
    found = window_of(Work({"forward": lambda: (calls.append(None), step())}), LOADED)
    assert found.iterations == len(calls) - 20
    assert 0 < found.iterations < 700


def test_a_long_warm_up_and_long_blocks_need_no_more() -> None:
    """The window is the end of the warm-up and the blocks, or the blocks alone."""
    short, long = (msgspec.structs.replace(LOADED, iterations=count) for count in (20, 300))
    work = Work({"forward": spin(1)})
    assert window_of(work, short, since_s=10).iterations == 0
    result = window_of(work, long, since_s=10)
    assert result.iterations == 0
    assert result.end_ns - result.start_ns >= 0.29e9


def test_groups_stay_whole_under_load() -> None:
    """The iterations of a window are whole spans of the measured ones."""
    measurement = msgspec.structs.replace(QUICK, load_s=0.5)
    found = window_of(Work({"forward": spin(0.1)}), measurement, since_s=0, clock=CoarseClock())
    assert found.iterations > 0


def test_without_a_window_nothing_more_is_run() -> None:
    """In a burn-in, a gate, on CPU devices."""
    work, stage = Work({"forward": spin(0.1)}), Listener().stage
    result = measure.measured(work, HostClock(), QUICK, stage, iteration_ms=0.1)
    assert measure.load_window(work, HostClock(), QUICK, stage, result, since_ns=0) is None


def test_processors_that_are_kept_busy_are_counted() -> None:
    """One by a step that spins, hardly any by one that sleeps."""
    busy, idle = (
        measure.measured(Work({"forward": step}), HostClock(), QUICK, Listener().stage, iteration_ms=1.0).host_cpu
        for step in (spin(1), lambda: time.sleep(0.005))
    )
    assert busy is not None
    assert idle is not None
    assert 0 <= idle < busy
