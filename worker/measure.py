"""The measuring loop of all workloads and devices: warm up until steady, then measure until the stopper ends it.

    first │ second │ block │ block │ … steady, or the cap │ measured block │ measured block │ … the stopper says so
    └──────────────── warm_up ───────────────────────────┘ └──────────────── measured ─────────────────────────┘

Only between blocks does the host wait for the device and report progress.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from protocol import floats
from protocol.failure import Phase
from protocol.messages import Measurement
from protocol.result import Block, SteadyState, StopReason, WarmUp
from worker import timing
from worker.stage import Stage
from worker.steady import is_steady
from worker.stopping import LEAST_ITERATIONS, Stopper
from worker.timing import Clock, Step, TimedBlock

_PROGRESS_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class Work:
    """Steps of one iteration, in order and by the names of their series.

    passes: of the steps in an iteration, one for each objective of training; series hold sums. waits: a step waits for
    the device, so that launch_bound is unknown. prepare: called before every block, untimed. one_by_one: blocks of one
    iteration. grouped: short iterations share a span. retries: of the device's allocator. least: iterations of adaptive
    measuring.
    """

    steps: dict[str, Step]
    passes: int = 1
    waits: bool = False
    prepare: Step = lambda: None
    one_by_one: bool = False
    retries: Callable[[], int] = lambda: 0
    least: int = LEAST_ITERATIONS
    grouped: bool = True

    def block(self, clock: Clock, iterations: int, group: int = 1) -> TimedBlock:
        """One timed block, with `spans` spans for each group of iterations."""
        self.prepare()
        return timing.time_block(clock, tuple(self.steps.values()), iterations * self.passes, group)

    @property
    def spans(self) -> int:
        """Timed spans of one iteration."""
        return len(self.steps) * self.passes

    def size(self, duration_s: float, iteration_ms: float, group: int = 1) -> int:
        """Iterations of a block that is to last `duration_s`."""
        return 1 if self.one_by_one else timing.iterations_for(duration_s * 1e3, iteration_ms, group)

    def group(self, clock: Clock, iteration_ms: float, iterations: int | None = None) -> int:
        """Iterations that one span covers; see timing.group_for."""
        grouped = self.grouped and not self.one_by_one
        return timing.group_for(clock, iteration_ms, self.spans, iterations) if grouped else 1

    def agreed(self, reason: StopReason | None) -> StopReason | None:
        """Why measuring ends after a block, None where it goes on. reason: this process's own."""
        return reason


@dataclass(frozen=True)
class Measured:
    """Measured blocks and series, as in protocol.result.Result."""

    blocks: tuple[Block, ...]
    series: dict[str, bytes]
    group: int
    stop_reason: StopReason
    launch_bound: bool | None


def warm_up(work: Work, clock: Clock, measurement: Measurement, stage: Stage) -> tuple[WarmUp, float]:
    """Run until times are steady; returns the facts and the current time of one iteration in milliseconds.

    The first two iterations are blocks of their own, by wall time. Runs `warm_up_iterations`, at least one, or at least
    two. Ends at most one iteration after the cap, which counts from the end of the first. The caller enters the phase.
    """
    with stage.timed("warm_up"):
        first_ms = work.block(clock, 1).wall_ms
        if measurement.warm_up_iterations is not None:
            return _warm_up_exactly(work, clock, measurement, stage, first_ms)
        return _warm_up_until_steady(work, clock, measurement, stage, first_ms)


def _warm_up_exactly(
    work: Work, clock: Clock, measurement: Measurement, stage: Stage, first_ms: float
) -> tuple[WarmUp, float]:
    asked = max(measurement.warm_up_iterations or 0, 1)
    second_ms = work.block(clock, 1).wall_ms if asked > 1 else None
    iteration_ms = first_ms if second_ms is None else second_ms
    done = min(asked, 2)
    pace = _Pace(stage)
    while done < asked:
        count = min(work.size(measurement.block_s, iteration_ms), asked - done)
        iteration_ms = work.block(clock, count).wall_ms / count
        done += count
        pace.tell(done / asked)
    return _facts(SteadyState.FIXED, done, first_ms, second_ms), iteration_ms


def _warm_up_until_steady(
    work: Work, clock: Clock, measurement: Measurement, stage: Stage, first_ms: float
) -> tuple[WarmUp, float]:
    begin = time.monotonic()
    second_ms = iteration_ms = work.block(clock, 1).wall_ms
    done = 2
    medians_ms: list[float] = []
    retries: list[int] = []
    pace = _Pace(stage)
    while (left_s := begin + measurement.warm_up_cap_s - time.monotonic()) > 0:
        pace.tell(1 - left_s / measurement.warm_up_cap_s)
        group = work.group(clock, iteration_ms)
        count = work.size(min(measurement.block_s, left_s), iteration_ms, group)
        block = work.block(clock, count, group)
        iteration_ms = block.wall_ms / count
        done += count
        medians_ms.append(median(_sums(block.spans_ms, work.spans)) / group)
        retries.append(work.retries())
        if is_steady(medians_ms, retries):
            return _facts(SteadyState.REACHED, done, first_ms, second_ms), iteration_ms
    return _facts(SteadyState.NONE, done, first_ms, second_ms), iteration_ms


def _facts(state: SteadyState, iterations: int, first_ms: float, second_ms: float | None) -> WarmUp:
    return WarmUp(steady_state=state, iterations=iterations, first_iteration_ms=first_ms, second_iteration_ms=second_ms)


def measured(work: Work, clock: Clock, measurement: Measurement, stage: Stage, iteration_ms: float) -> Measured:
    """Measure until the stopper ends it, from the `iteration_ms` of the warm-up on.

    Adaptive measuring does at least `work.least` iterations and ends at most one after `max_s`. Errors of the device
    surface at the end of a block.
    """
    stage.enter(Phase.MEASURE)
    asked = None if measurement.iterations is None else max(measurement.iterations, 1)
    group = work.group(clock, iteration_ms, asked)
    stopper, pace, record = Stopper(measurement, work.least), _Pace(stage), _Record(work, group)
    with stage.timed("measure"):
        begin = time.monotonic()
        reason = None
        while reason is None:
            duration_s = measurement.block_s
            if asked is None:
                duration_s = min(duration_s, max(begin + measurement.max_s - time.monotonic(), 0.0))
            count = work.size(duration_s, iteration_ms, group)
            if asked is not None:
                count = min(count, asked - record.iterations)
            block = work.block(clock, count, group)
            record.add(block, count)
            iteration_ms = block.wall_ms / count
            elapsed_s = time.monotonic() - begin
            pace.tell(record.iterations / asked if asked else elapsed_s / measurement.max_s)
            reason = work.agreed(stopper.reason(record.totals_ms, record.iterations, elapsed_s))
    return record.measured(clock, reason)


class _Record:
    """Values measured so far, in milliseconds an iteration, each a mean over `group` of them."""

    def __init__(self, work: Work, group: int) -> None:
        self._work = work
        self._group = group
        self._blocks: list[Block] = []
        self._spans_ms: list[float] = []
        self.totals_ms: list[float] = []
        self.iterations = 0

    def add(self, block: TimedBlock, iterations: int) -> None:
        spans_ms = [span / self._group for span in block.spans_ms]
        self._spans_ms += spans_ms
        self.totals_ms += _sums(spans_ms, self._work.spans)
        self.iterations += iterations
        self._blocks.append(
            Block(start_ns=block.start_ns, enqueued_ns=block.enqueued_ns, end_ns=block.end_ns, iterations=iterations)
        )

    def measured(self, clock: Clock, reason: StopReason) -> Measured:
        steps, passes = self._work.steps, self._work.passes
        series = {name: floats.pack(_sums(self._spans_ms[at :: len(steps)], passes)) for at, name in enumerate(steps)}
        bound = None if self._work.waits else timing.launch_bound(clock, self._blocks, fmean(self.totals_ms))
        return Measured(
            blocks=tuple(self._blocks),
            series={"iteration": floats.pack(self.totals_ms), **series},
            group=self._group,
            stop_reason=reason,
            launch_bound=bound,
        )


def _sums(values: Sequence[float], each: int) -> list[float]:
    """Sums of every `each` consecutive values: the time of an iteration is that of its spans."""
    if each == 1:
        return list(values)
    return [sum(values[at : at + each]) for at in range(0, len(values), each)]


class _Pace:
    """Reports the progress of a phase, at most ten times a second."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._told = -_PROGRESS_EVERY_S

    def tell(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._told >= _PROGRESS_EVERY_S:
            self._told = now
            self._stage.progress(fraction)
