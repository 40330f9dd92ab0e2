"""Clocks that time the iterations of one block, on a GPU and on a CPU.

    begin ── mark ─ step ─ mark ─ step ─ mark ─ … ─ step ─ mark ── finish
               └──────── spans of time between marks ────────┘

On CUDA a mark is an event in the stream: the host waits for the device only before the first mark and after the last.
Spans include gaps in which the device waits for the host (`launch_bound`). Event resolution is about half a
microsecond. Therefore one span covers about 1 ms of iterations if these are shorter than 0.5 ms.
"""

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from time import monotonic_ns, perf_counter_ns  # bound before a model's code can replace them
from typing import Final, Protocol

from protocol.result import Block

Step = Callable[[], object]

_BEHIND: Final = 0.5
"""Iterations of queued work at the block's last enqueue. A device with less left had waited for the host.

Below one, because CUDA queues only about 1000 kernel launches, less than a training step of a large model."""
_BEHIND_MS: Final = 5.0
"""Milliseconds of queued work that suffice too. In bert-base training 1000 launches are 38 ms of 95 a step [H200]."""


@dataclass(frozen=True)
class TimedBlock:
    """One timed block: monotonic times of its start, last enqueue and end, and the spans between its marks.

    enqueued_ns: end_ns with a HostClock. enqueue_ms: host's time to enqueue the block's first iteration, while the
    device's queue was empty (mean of the first group if iterations are timed together). spans_ms: time of each step
    (part of an iteration, such as forward), in the order in which they ran; of a whole group if iterations are timed
    together.
    """

    start_ns: int
    enqueued_ns: int
    end_ns: int
    spans_ms: list[float]
    enqueue_ms: float = 0.0

    @property
    def wall_ms(self) -> float:
        """Duration of the block in milliseconds, until the device has finished the last step."""
        return (self.end_ns - self.start_ns) / 1e6


class Clock(Protocol):
    """Clock that times one block after another. shortest_span_ms: shorter times between marks are inexact.

    ahead_of_device: True if a step returns before the device has done its work.
    """

    shortest_span_ms: float
    ahead_of_device: bool

    def begin(self, marks: int) -> None:
        """Start a block of `marks` marks, one more than it has spans. Waits until the device is idle."""

    def mark(self) -> None:
        """Set a mark. The times between successive marks are the spans."""

    def finish(self) -> TimedBlock:
        """End the block: wait for the device, and return the block with its spans."""


class HostClock:
    """Clock of CPU devices and of steps that wait for the device: a step has ended when its call returns."""

    shortest_span_ms = 0.0
    ahead_of_device = False

    def __init__(self) -> None:
        self._marks: list[int] = []
        self._start_ns = 0

    def begin(self, marks: int) -> None:
        """Start a block. The number of marks is not needed."""
        self._marks = []
        self._start_ns = monotonic_ns()

    def mark(self) -> None:
        """Set a mark by reading the host's clock."""
        self._marks.append(perf_counter_ns())

    def finish(self) -> TimedBlock:
        """Return the block that ends now."""
        end_ns = monotonic_ns()
        spans_ms = [(after - before) / 1e6 for before, after in pairwise(self._marks)]
        return TimedBlock(self._start_ns, end_ns, end_ns, spans_ms)


class CudaClock:
    """Clock of a GPU: CUDA events from a pool, in the stream that is current when the clock is made."""

    shortest_span_ms = 1.0
    ahead_of_device = True

    def __init__(self) -> None:
        from torch import cuda

        self._cuda = cuda
        self._stream = cuda.current_stream()
        self._pool: list[cuda.Event] = []
        self._used = 0
        self._start_ns = 0

    def begin(self, marks: int) -> None:
        """Start a block of `marks` events. Records new events once, because their first record creates them."""
        while len(self._pool) < marks:
            event = self._cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch does not annotate it
            event.record(self._stream)
            self._pool.append(event)
        self._used = 0
        self._cuda.synchronize()
        self._start_ns = monotonic_ns()

    def mark(self) -> None:
        """Set a mark by recording an event in the stream."""
        self._pool[self._used].record(self._stream)
        self._used += 1

    def finish(self) -> TimedBlock:
        """Wait for the device and return the block. Errors of the block's kernels are raised here."""
        enqueued_ns = monotonic_ns()
        self._cuda.synchronize()
        end_ns = monotonic_ns()
        spans_ms = [before.elapsed_time(after) for before, after in pairwise(self._pool[: self._used])]
        return TimedBlock(self._start_ns, enqueued_ns, end_ns, spans_ms)


def time_block(clock: Clock, steps: Sequence[Step], iterations: int, group: int = 1, passes: int = 1) -> TimedBlock:
    """Run all `steps` in order, `iterations` times, and time each step. Python's garbage collector is off meanwhile.

    group: number of iterations timed together, as one span. passes: number of first iterations whose enqueue time is
    TimedBlock.enqueue_ms, at most `iterations` / `group`; above 1 only if `group` is 1. Raises ValueError if `group`
    does not divide `iterations`, or if it is above 1 and there are several steps.
    """
    rounds, left_over = divmod(iterations, group)
    if left_over or (group > 1 and len(steps) > 1):
        raise ValueError(f"{iterations} iterations of {len(steps)} steps cannot be timed {group} at a time")
    clock.begin(rounds * len(steps) + 1)
    with _collector_off():
        clock.mark()
        first_ns = 0
        for number in range(rounds):
            for step in steps:
                for _ in range(group):
                    step()
                clock.mark()
            if number == passes - 1:
                first_ns = monotonic_ns()
        block = clock.finish()
    return replace(block, enqueue_ms=(first_ns - block.start_ns) / 1e6 / group)


@contextmanager
def _collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def iterations_for(duration_ms: float, iteration_ms: float, group: int = 1) -> int:
    """Return the least number of iterations that lasts `duration_ms`: a multiple of `group`, at least `group`.

    iteration_ms: expected time of an iteration. If it is 0 or less, the result is `group`.
    """
    if iteration_ms <= 0:
        return group
    return max(math.ceil(duration_ms / iteration_ms / group), 1) * group


def group_for(clock: Clock, iteration_ms: float, steps: int, iterations: int | None) -> int:
    """Return the number of iterations to time together: above 1 if an iteration is too short for the clock.

    iteration_ms: its expected time. steps: number of timed steps in an iteration; with several, the result is 1.
    iterations: total number of iterations, which the result must divide; None if it is unknown.
    """
    if steps > 1 or not 0 < iteration_ms < clock.shortest_span_ms / 2:
        return 1
    group = math.ceil(clock.shortest_span_ms / iteration_ms)
    if iterations is None:
        return group
    return max(size for size in range(1, min(group, iterations) + 1) if iterations % size == 0)


def launch_bound(clock: Clock, blocks: Sequence[Block | TimedBlock], iteration_ms: float) -> bool | None:
    """Whether the device waited for the host; None with a HostClock. iteration_ms: mean time of an iteration.

    True if the median time from the last enqueue to the end of a block is below 5 ms and below half an iteration.
    """
    if not clock.ahead_of_device:
        return None
    behind_ms = median((block.end_ns - block.enqueued_ns) / 1e6 for block in blocks)
    return behind_ms < min(_BEHIND * iteration_ms, _BEHIND_MS)


def host_share(clock: Clock, enqueue_ms: Sequence[float], iteration_ms: float) -> float | None:
    """Return the median TimedBlock.enqueue_ms / `iteration_ms`; None with a HostClock, or if `iteration_ms` is 0."""
    if not clock.ahead_of_device or iteration_ms <= 0:
        return None
    return median(enqueue_ms) / iteration_ms
