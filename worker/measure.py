"""Measuring loop of all workloads: warm up until times are steady, then measure until a Stopper ends it.

    first │ second │ block │ block │ … steady, or the cap │ measured block │ measured block │ … until it stops
    └──────────────── warm_up ───────────────────────────┘ └──────────────── measured ─────────────────────────┘

block: iterations between two waits of the host for the device; progress is reported between blocks. span: timed
interval in a block: one run of a step, or several short iterations (worker/timing.py). If a load window is requested
(a period in which power is read), further blocks follow until it is long enough. Their times are not kept.
"""

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import msgspec

from protocol import floats, settling
from protocol.failure import Phase
from protocol.messages import SETTLING_S, Measurement
from protocol.result import Block, LoadWindow, MeasuredIterations, SteadyState, StopReason, WarmUp
from worker import timing
from worker.stage import Stage
from worker.steady import WINDOW, is_steady
from worker.stopping import LEAST_ITERATIONS, Stopper
from worker.timing import Clock, Step, TimedBlock

SETTLING_NS: Final = round(SETTLING_S * 1e9)
_PROGRESS_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class Work:
    """Work of one iteration. steps: name of the series of times → step, in order.

    passes: how often an iteration runs all steps in turn. A step's time in the iteration is the sum over these runs.
    waits: a step waits for the device, so that launch_bound and host_share are unknown. prepare: called before every
    block, untimed. one_by_one: a block has one iteration. retries: returns the number of retries of the device's
    allocator so far. least: minimum number of iterations, unless the measurement has a fixed number. grouped: several
    iterations that are too short for the clock may be timed together, as one span.
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
        """Run and time one block of `iterations`.

        group: number of iterations that are timed together, as one span. It must divide `iterations`, and be 1 if an
        iteration has several steps or passes.
        """
        self.prepare()
        return timing.time_block(clock, tuple(self.steps.values()), iterations * self.passes, group, self.passes)

    @property
    def spans(self) -> int:
        """Number of timed intervals in one iteration: one for each run of a step."""
        return len(self.steps) * self.passes

    def size(self, duration_s: float, iteration_ms: float, group: int = 1) -> int:
        """Return the least multiple of `group` iterations that lasts `duration_s`; 1 if `one_by_one`.

        iteration_ms: expected time of an iteration.
        """
        return 1 if self.one_by_one else timing.iterations_for(duration_s * 1e3, iteration_ms, group)

    def group(self, clock: Clock, iteration_ms: float, iterations: int | None = None) -> int:
        """Return the number of iterations to time as one span: above 1 if one iteration is too short for the clock.

        It is 1 if `grouped` is False, if `one_by_one` is True, or if an iteration has several spans.

        iteration_ms: expected time of an iteration. iterations: number of iterations to measure, which must be a
        multiple of the result; None if it is unknown.
        """
        grouped = self.grouped and not self.one_by_one
        return timing.group_for(clock, iteration_ms, self.spans, iterations) if grouped else 1

    def agreed(self, reason: StopReason | None) -> StopReason | None:
        """Return the reason to stop, or None to continue. This method returns `reason`, for a launch of one process.

        A subclass for several processes returns the leader's reason.
        """
        return reason


def warm_up(work: Work, clock: Clock, measurement: Measurement, stage: Stage) -> tuple[WarmUp, float]:
    """Warm up. Returns facts of the warm-up, and the mean iteration time of its last block in milliseconds.

    Runs exactly `measurement.warm_up_iterations` iterations (at least one) if that is set. Otherwise runs at least two,
    until times are steady or `warm_up_cap_s` seconds have passed since the end of the first; an iteration that has
    begun is finished. The first two iterations are separate blocks, timed by wall time. Call it in Phase.WARM_UP.
    """
    with stage.timed("warm_up"):
        first_ms = work.block(clock, 1).wall_ms
        if measurement.warm_up_iterations is not None:
            return _warm_up_exactly(work, clock, measurement, stage, first_ms)
        return _warm_up_until_steady(work, clock, measurement, stage, first_ms)


def _warm_up_exactly(
    work: Work, clock: Clock, measurement: Measurement, stage: Stage, first_ms: float
) -> tuple[WarmUp, float]:
    requested = max(measurement.warm_up_iterations or 0, 1)
    second_ms = work.block(clock, 1).wall_ms if requested > 1 else None
    iteration_ms = first_ms if second_ms is None else second_ms
    done = min(requested, 2)
    progress = _Progress(stage)
    while done < requested:
        count = min(work.size(measurement.block_s, iteration_ms), requested - done)
        iteration_ms = work.block(clock, count).wall_ms / count
        done += count
        progress.report(done / requested)
    return _facts(SteadyState.FIXED, done, first_ms, second_ms), iteration_ms


def _warm_up_until_steady(
    work: Work, clock: Clock, measurement: Measurement, stage: Stage, first_ms: float
) -> tuple[WarmUp, float]:
    begin = time.monotonic()
    second_ms = iteration_ms = work.block(clock, 1).wall_ms
    done = 2
    settled = _Settled(clock, measurement)
    progress = _Progress(stage)
    while (left_s := begin + measurement.warm_up_cap_s - time.monotonic()) > 0:
        progress.report(1 - left_s / measurement.warm_up_cap_s)
        group = work.group(clock, iteration_ms)
        count = work.size(min(measurement.block_s, left_s), iteration_ms, group)
        block = work.block(clock, count, group)
        iteration_ms = block.wall_ms / count
        done += count
        settled.add(block, median(_sums(block.spans_ms, work.spans)) / group, iteration_ms, work.retries())
        if settled.is_over():
            break
    facts = _facts(settled.state, done, first_ms, second_ms)
    course = floats.pack(settled.medians_ms)
    return msgspec.structs.replace(facts, course=course, settled_blocks=settled.blocks), iteration_ms


class _Settled:
    """Decides when warm-up ends: times are steady and, if a GPU limits the speed, have no trend (protocol/settling.py).

    state: REACHED if times were steady after at least one block, even if warm-up then went on to its cap; else NONE.
    """

    def __init__(self, clock: Clock, measurement: Measurement) -> None:
        self._clock, self._cap_s = clock, measurement.warm_up_cap_s
        self._blocks: list[TimedBlock] = []
        self._retries: list[int] = []
        self._steady: list[bool] = []
        self.medians_ms: list[float] = []
        self._iteration_ms = 0.0
        self.blocks = 0

    def add(self, block: TimedBlock, median_ms: float, iteration_ms: float, retries: int) -> None:
        self.medians_ms.append(median_ms)
        self._blocks.append(block)
        self._retries.append(retries)
        self._iteration_ms = iteration_ms
        self._steady.append(is_steady(self.medians_ms, self._retries))

    def is_over(self) -> bool:
        if not self._steady[-1]:
            return False
        newest = self._blocks[-WINDOW:]
        if timing.launch_bound(self._clock, newest, self._iteration_ms) is not False:
            return True  # the host decides, which no clock of a GPU slows down
        block_s = (newest[-1].end_ns - newest[0].start_ns) / 1e9 / WINDOW
        self.blocks = settling.settled_blocks(self.medians_ms, block_s, self._cap_s)
        return self.blocks > 0

    @property
    def state(self) -> SteadyState:
        return SteadyState.REACHED if any(self._steady) else SteadyState.NONE


def _facts(state: SteadyState, iterations: int, first_ms: float, second_ms: float | None) -> WarmUp:
    return WarmUp(steady_state=state, iterations=iterations, first_iteration_ms=first_ms, second_iteration_ms=second_ms)


def measured(
    work: Work, clock: Clock, measurement: Measurement, stage: Stage, iteration_ms: float
) -> MeasuredIterations:
    """Enter Phase.MEASURE, and run and time blocks until Stopper gives a reason to stop.

    iteration_ms: last known iteration time. A fixed number, `measurement.iterations`, is run exactly: `work.least` and
    `measurement.max_s` do not apply. Otherwise the measurement ends about one iteration after `max_s` at the latest,
    but never before `work.least` iterations, however long they take. Errors of the device are raised.
    """
    stage.enter(Phase.MEASURE)
    requested = None if measurement.iterations is None else max(measurement.iterations, 1)
    group = work.group(clock, iteration_ms, requested)
    stopper, progress, record = Stopper(measurement, work.least), _Progress(stage), _Record(work, group)
    with stage.timed("measure"):
        begin, before_s = time.monotonic(), _processors_s()
        elapsed_s = 0.0
        reason = None
        while reason is None:
            duration_s = measurement.block_s
            if requested is None:
                duration_s = min(duration_s, max(begin + measurement.max_s - time.monotonic(), 0.0))
            count = work.size(duration_s, iteration_ms, group)
            if requested is not None:
                count = min(count, requested - record.iterations)
            block = work.block(clock, count, group)
            record.add(block, count)
            iteration_ms = block.wall_ms / count
            elapsed_s = time.monotonic() - begin
            progress.report(record.iterations / requested if requested else elapsed_s / measurement.max_s)
            reason = work.agreed(stopper.reason(record.totals_ms, record.iterations, elapsed_s))
    host_cpu = (_processors_s() - before_s) / elapsed_s if elapsed_s else None
    return msgspec.structs.replace(record.measured(clock, reason), host_cpu=host_cpu)


def load_window(
    work: Work, clock: Clock, measurement: Measurement, stage: Stage, measured: MeasuredIterations, *, since_ns: int
) -> LoadWindow | None:
    """Run further blocks until the load window lasts at least `measurement.load_s`. Return it; None if that is 0.

    measured: the measured blocks. They belong to the window, except what ran before its start. since_ns: end of the
    first iteration, on the monotonic clock. The window starts at least SETTLING_NS after that, possibly in warm-up.
    """
    if not measurement.load_s:
        return None
    blocks, window_ns, earliest_ns = measured.blocks, round(measurement.load_s * 1e9), since_ns + SETTLING_NS
    iteration_ms = (blocks[-1].end_ns - blocks[-1].start_ns) / 1e6 / blocks[-1].iterations
    iterations, end_ns, progress = 0, blocks[-1].end_ns, _Progress(stage)
    with stage.timed("measure"):
        while (left_ns := earliest_ns + window_ns - end_ns) > 0:
            progress.report(1 - left_ns / (SETTLING_NS + window_ns))
            count = work.size(min(measurement.block_s, left_ns / 1e9), iteration_ms, measured.group)
            block = work.block(clock, count, measured.group)
            iterations += count
            iteration_ms, end_ns = block.wall_ms / count, block.end_ns
    start_ns = max(earliest_ns, min(blocks[0].start_ns, end_ns - window_ns))
    return LoadWindow(start_ns=start_ns, end_ns=end_ns, iterations=iterations)


def _processors_s() -> float:
    """Return the CPU time of this process and of its ended children, in seconds."""
    usages = (resource.getrusage(target) for target in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class _Record:
    """Collects the measured blocks, and the times of their spans and iterations in milliseconds.

    A span is a step of an iteration (forward, backward, …). group: number of iterations timed together; the times are
    then means over the group.
    """

    def __init__(self, work: Work, group: int) -> None:
        self._work = work
        self._group = group
        self._blocks: list[Block] = []
        self._spans_ms: list[float] = []
        self._enqueue_ms: list[float] = []
        self.totals_ms: list[float] = []
        self.iterations = 0

    def add(self, block: TimedBlock, iterations: int) -> None:
        spans_ms = [span / self._group for span in block.spans_ms]
        self._spans_ms += spans_ms
        self.totals_ms += _sums(spans_ms, self._work.spans)
        self.iterations += iterations
        self._enqueue_ms.append(block.enqueue_ms)
        self._blocks.append(
            Block(start_ns=block.start_ns, enqueued_ns=block.enqueued_ns, end_ns=block.end_ns, iterations=iterations)
        )

    def measured(self, clock: Clock, reason: StopReason) -> MeasuredIterations:
        steps, passes = self._work.steps, self._work.passes
        series = {name: floats.pack(_sums(self._spans_ms[at :: len(steps)], passes)) for at, name in enumerate(steps)}
        iteration_ms, waits = fmean(self.totals_ms), self._work.waits
        bound = None if waits else timing.launch_bound(clock, self._blocks, iteration_ms)
        return MeasuredIterations(
            blocks=tuple(self._blocks),
            series={"iteration": floats.pack(self.totals_ms), **series},
            group=self._group,
            stop_reason=reason,
            launch_bound=bound,
            host_share=None if waits else timing.host_share(clock, self._enqueue_ms, iteration_ms),
        )


def _sums(values: Sequence[float], each: int) -> list[float]:
    """Return the sums of groups of `each` consecutive values, such as iteration times from times of spans."""
    if each == 1:
        return list(values)
    return [sum(values[at : at + each]) for at in range(0, len(values), each)]


class _Progress:
    """Reports the progress of a phase, at most ten times a second."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._reported_s = -_PROGRESS_EVERY_S

    def report(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._reported_s >= _PROGRESS_EVERY_S:
            self._reported_s = now
            self._stage.progress(fraction)
