"""The clock of a block: spans, groups, and who waited for whom."""

import functools
import gc
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from protocol.result import Block
from worker.timing import CudaClock, HostClock, group_for, host_share, iterations_for, launch_bound, time_block


class CoarseClock(HostClock):
    """A host clock that, like CUDA events, asks for spans of a millisecond, and claims to run ahead of a device."""

    shortest_span_ms = 1.0
    ahead_of_device = True


def test_every_step_or_group_has_a_span() -> None:
    """Five iterations of three steps have fifteen spans; twelve iterations four at a time have three."""
    calls: list[str] = []
    steps = [lambda name=name: calls.append(name) for name in "abc"]
    block = time_block(HostClock(), steps, iterations=5)
    assert calls == list("abc") * 5
    assert len(block.spans_ms) == 15
    assert all(span >= 0 for span in block.spans_ms)
    assert sum(block.spans_ms) <= block.wall_ms
    assert block.start_ns <= block.enqueued_ns <= block.end_ns
    calls: list[None] = []
    block = time_block(HostClock(), [lambda: calls.append(None)], iterations=12, group=4)
    assert len(calls) == 12
    assert len(block.spans_ms) == 3


def test_garbage_collection_is_off_within_a_block() -> None:
    """No collection in the middle of an iteration, and none suppressed for ever, even when a step raises."""
    states: list[bool] = []
    time_block(HostClock(), [lambda: states.append(gc.isenabled())], iterations=2)
    assert states == [False, False]
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        time_block(HostClock(), [lambda: 1 / 0], iterations=1)
    assert gc.isenabled()


@given(duration=st.floats(0, 1e4), iteration=st.floats(1e-3, 1e5), group=st.integers(1, 200))
def test_block_lasts_at_least_as_long_as_asked_for(duration: float, iteration: float, group: int) -> None:
    """A block is whole groups, at least one, and no more than needed."""
    count = iterations_for(duration, iteration, group)
    assert count >= group
    assert count % group == 0
    assert count * iteration >= duration * (1 - 1e-9)
    assert count == group or (count - group) * iteration <= duration * (1 + 1e-9)


@given(iteration=st.floats(1e-4, 10), total=st.none() | st.integers(1, 1000))
def test_short_iterations_are_grouped_to_a_millisecond(iteration: float, total: int | None) -> None:
    """Below half a millisecond a span covers a millisecond; a fixed number of iterations is always divided evenly."""
    group = group_for(CoarseClock(), iteration, 1, total)
    if iteration >= 0.5:
        assert group == 1
    elif total is None:
        assert group * iteration >= 1.0
        assert (group - 1) * iteration < 1.0
    else:
        assert total % group == 0


@pytest.mark.parametrize(("iterations", "steps", "group"), [(7, 1, 2), (4, 2, 2)])
def test_group_that_does_not_fit_is_refused(iterations: int, steps: int, group: int) -> None:
    """Half a group cannot be timed, nor can several steps at once."""
    with pytest.raises(ValueError, match="cannot be timed"):
        time_block(HostClock(), [lambda: None] * steps, iterations, group)


def test_host_clock_and_several_steps_need_no_groups() -> None:
    """A CPU's clock is fine enough, and the steps of a training iteration are timed one by one."""
    assert group_for(HostClock(), 0.01, 1, None) == 1
    assert group_for(CoarseClock(), 0.01, 3, None) == 1


class FakeCuda:
    """The few calls of torch.cuda that the clock makes, on a device that takes 2 ms between any two events."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.made = 0
        self.recorded = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing
                fake.made += 1

            def record(self, stream: str) -> None:
                assert stream == "the stream"
                fake.recorded += 1
                self.at_ms = 2.0 * fake.recorded
                fake.calls.append("record")

            def elapsed_time(self, end: "Event") -> float:
                assert fake.calls[-1] == "synchronize"
                return end.at_ms - self.at_ms

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: "the stream")
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: fake.calls.append("synchronize"))


def test_cuda_block_waits_for_the_device_only_at_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events come from a pool that was filled, and recorded once, before the block; the next block uses it again."""
    fake = FakeCuda()
    fake.install(monkeypatch)
    clock = CudaClock()
    step = functools.partial(fake.calls.append, "step")
    first = time_block(clock, [step, step], iterations=2)
    assert fake.calls == (["record"] * 5 + ["synchronize", "record"] + ["step", "record"] * 4 + ["synchronize"])
    assert first.spans_ms == [2.0] * 4
    assert first.start_ns <= first.enqueued_ns <= first.end_ns
    fake.calls.clear()
    second = time_block(clock, [step], iterations=2)
    assert fake.calls == ["synchronize", "record"] + ["step", "record"] * 2 + ["synchronize"]
    assert second.spans_ms == [2.0] * 2
    assert fake.made == 5


def block(behind_ms: float) -> Block:
    return Block(start_ns=0, enqueued_ns=50_000_000, end_ns=50_000_000 + int(behind_ms * 1e6), iterations=10)


@pytest.mark.parametrize(
    ("clock", "behind_ms", "iteration_ms", "expected"),
    [
        (CoarseClock(), [0.1] * 3, 2.0, True),
        (CoarseClock(), [0.9] * 3, 2.0, True),
        (CoarseClock(), [1.2] * 3, 2.0, False),
        (CoarseClock(), [30.0] * 3, 2.0, False),
        (CoarseClock(), [0.1] * 3, 95.2, True),
        (CoarseClock(), [38.2] * 3, 95.2, False),  # CUDA holds the host back when a thousand launches wait
        (CoarseClock(), [0.1, 40.0, 0.1], 2.0, True),  # the median block decides
        (HostClock(), [0.0], 2.0, None),  # nothing is enqueued on a CPU
    ],
)
def test_device_less_than_half_an_iteration_behind_is_launch_bound(
    clock: HostClock, behind_ms: list[float], iteration_ms: float, expected: bool | None
) -> None:
    """A device that is done with the last enqueue waited for the host."""
    assert launch_bound(clock, [block(each) for each in behind_ms], iteration_ms) is expected


def test_enqueueing_is_timed_for_the_first_iteration_alone() -> None:
    """Of all its passes, or of one in a group: later ones may be held back by the device's full queue."""
    ended_ns: list[int] = []

    def step() -> None:
        time.sleep(0.005)
        ended_ns.append(time.monotonic_ns())

    for passes, group in ((2, 1), (1, 3)):
        ended_ns.clear()
        block = time_block(CoarseClock(), [step], 6, group=group, passes=passes)
        first, second = (
            (ended_ns[place] - block.start_ns) / 1e6 / group for place in (passes * group - 1, passes * group)
        )
        assert first <= block.enqueue_ms < second


def test_share_of_the_host_is_the_middle_block_of_a_device_that_it_runs_ahead_of() -> None:
    """One block beside a busy host does not matter; a CPU has no share."""
    assert host_share(CoarseClock(), [4.0, 5.0, 20.0], 10.0) == 0.5
    assert host_share(HostClock(), [4.0], 10.0) is None
