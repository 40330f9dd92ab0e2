"""Injected fault of a slow GPU: each block takes some percent longer (`--inject slow`)."""

import time
from dataclasses import dataclass, replace

from protocol.messages import Assign
from worker.measure import Work
from worker.timing import Clock, TimedBlock
from worker.verify.flips import NO_FAULT


def slowed(work: Work, assign: Assign) -> Work:
    """The work, slowed where the launch has this fault."""
    percent = (assign.injection or NO_FAULT).slow_percent
    if percent <= 0:
        return work
    return SlowWork(
        work.steps,
        passes=work.passes,
        waits=work.waits,
        retries=work.retries,
        least=work.least,
        work=work,
        percent=percent,
    )


@dataclass(frozen=True, kw_only=True)
class SlowWork(Work):
    """Other work, done more slowly."""

    work: Work
    percent: float

    def block(self, clock: Clock, iterations: int, group: int = 1) -> TimedBlock:
        """A block of the work, followed by sleep that counts to its last span."""
        block = self.work.block(clock, iterations, group)
        time.sleep(block.wall_ms / 1e3 * self.percent / 100)
        end_ns = time.monotonic_ns()
        spans_ms = [*block.spans_ms[:-1], block.spans_ms[-1] + (end_ns - block.end_ns) / 1e6]
        return replace(block, end_ns=end_ns, spans_ms=spans_ms)

    def size(self, duration_s: float, iteration_ms: float, group: int = 1) -> int:
        """As in the work."""
        return self.work.size(duration_s, iteration_ms, group)

    def group(self, clock: Clock, iteration_ms: float, iterations: int | None = None) -> int:
        """As in the work."""
        return self.work.group(clock, iteration_ms, iterations)
