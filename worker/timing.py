"""Clocks that time the iterations of one block, on a GPU and on a CPU.

    begin ── mark ─ step ─ mark ─ step ─ mark ─ … ─ step ─ mark ── finish
               └──────── spans of time between marks ────────┘

On CUDA a mark is an event in the stream: the host waits for the device only before the first mark and after the last.
Spans contain the gaps in which the device waits for the host (`launch_bound`). Event resolution is about half a
microsecond, so below 0.5 ms an iteration one span covers as many iterations as make 1 ms.
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
"""Iterations of work that the device must still have when the host has enqueued all, or else it waited for the host.

Less than one: CUDA holds the host back after about a thousand launches, less than a training step of a large model."""
_BEHIND_MS: Final = 5.0
"""Milliseconds of such work that always suffice: 1000 launches of bert-base training (95 ms on an H200) are 38 ms."""


@dataclass(frozen=True)
class TimedBlock:
    """One block: start, last enqueue and end on the monotonic clock, and the spans between its marks.

    enqueue_ms: time that the host needed to enqueue the first iteration, while the device's queue was empty.
    """

    start_ns: int
    enqueued_ns: int
    end_ns: int
    spans_ms: list[float]
    enqueue_ms: float = 0.0

    @property
    def wall_ms(self) -> float:
        """Milliseconds from before the first mark to the end of the last step's work on the device."""
        return (self.end_ns - self.start_ns) / 1e6


class Clock(Protocol):
    """Times one block after the other. shortest_span_ms: shorter spans are inexact.

    ahead_of_device: calls return before the device is done.
    """

    shortest_span_ms: float
    ahead_of_device: bool

    def begin(self, marks: int) -> None:
        """Start a block of `marks` marks: prepare them and wait until the device is idle."""

    def mark(self) -> None:
        """End one span and start the next."""

    def finish(self) -> TimedBlock:
        """End the block: wait for the device, and return the block with its spans."""


class HostClock:
    """Clock of devices on which a step is over when its call returns."""

    shortest_span_ms = 0.0
    ahead_of_device = False

    def __init__(self) -> None:
        self._marks: list[int] = []
        self._start_ns = 0

    def begin(self, marks: int) -> None:
        """Start a block. The number of marks does not matter."""
        self._marks = []
        self._start_ns = monotonic_ns()

    def mark(self) -> None:
        """End one span and start the next, by reading the host's clock."""
        self._marks.append(perf_counter_ns())

    def finish(self) -> TimedBlock:
        """Return the block that ends now."""
        end_ns = monotonic_ns()
        spans_ms = [(after - before) / 1e6 for before, after in pairwise(self._marks)]
        return TimedBlock(self._start_ns, end_ns, end_ns, spans_ms)


class CudaClock:
    """Clock of a GPU: CUDA events in the current stream, from a pool that is filled before a block starts."""

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
        """Start a block. Records each new event once before, because the driver creates it when first recorded."""
        while len(self._pool) < marks:
            event = self._cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch does not annotate it
            event.record(self._stream)
            self._pool.append(event)
        self._used = 0
        self._cuda.synchronize()
        self._start_ns = monotonic_ns()

    def mark(self) -> None:
        """End one span and start the next, by recording an event in the stream."""
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
    """Run all `steps` in order, `iterations` times, and time every step. The garbage collector is off.

    group: iterations that one span covers. passes: how many of them TimedBlock.enqueue_ms covers (measure.Work.passes).
    Raises ValueError if `group` does not divide `iterations`, or is above one for several steps.
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
    """Return how many iterations last at least `duration_ms`: a positive multiple of `group`."""
    if iteration_ms <= 0:
        return group
    return max(math.ceil(duration_ms / iteration_ms / group), 1) * group


def group_for(clock: Clock, iteration_ms: float, steps: int, iterations: int | None) -> int:
    """Return how many iterations one span should cover: a divisor of their total `iterations`, unless that is None.

    iteration_ms: time of an iteration. steps: number of timed steps in an iteration; above one, a span covers one step.
    """
    if steps > 1 or not 0 < iteration_ms < clock.shortest_span_ms / 2:
        return 1
    group = math.ceil(clock.shortest_span_ms / iteration_ms)
    if iterations is None:
        return group
    return max(size for size in range(1, min(group, iterations) + 1) if iterations % size == 0)


def launch_bound(clock: Clock, blocks: Sequence[Block | TimedBlock], iteration_ms: float) -> bool | None:
    """Whether the device waited for the host: the median block ended soon after its last enqueue. None on a CPU.

    iteration_ms: mean time of an iteration.
    """
    if not clock.ahead_of_device:
        return None
    behind_ms = median((block.end_ns - block.enqueued_ns) / 1e6 for block in blocks)
    return behind_ms < min(_BEHIND * iteration_ms, _BEHIND_MS)


def host_share(clock: Clock, enqueue_ms: Sequence[float], iteration_ms: float) -> float | None:
    """Return the share of an iteration's time that the host needs to enqueue it. None on a CPU.

    enqueue_ms: time to enqueue the first iteration of each block. Later iterations may have to wait for a full queue.
    """
    if not clock.ahead_of_device or iteration_ms <= 0:
        return None
    return median(enqueue_ms) / iteration_ms
