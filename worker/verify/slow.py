"""Injected fault of a slow GPU (`--inject slow`): each block takes some percent longer."""

import time
from dataclasses import dataclass, replace

from protocol.messages import Assign
from worker.measure import Work
from worker.timing import Clock, TimedBlock
from worker.verify.flips import NO_FAULT


def slowed(work: Work, assign: Assign) -> Work:
    """Return a Work whose blocks take assign.injection.slow_percent % longer; `work` itself if that is 0 or unset."""
    percent = (assign.injection or NO_FAULT).slow_percent
    if percent <= 0:
        return work
    return _SlowWork(
        work.steps,
        passes=work.passes,
        waits=work.waits,
        retries=work.retries,
        least=work.least,
        work=work,
        percent=percent,
    )


@dataclass(frozen=True, kw_only=True)
class _SlowWork(Work):
    """Wraps a Work and slows it: after each block it sleeps, and adds the sleep to the block's last span.

    percent: duration of the sleep, in percent of the block's.
    """

    work: Work
    percent: float

    def block(self, clock: Clock, iterations: int, group: int = 1) -> TimedBlock:
        block = self.work.block(clock, iterations, group)
        time.sleep(block.wall_ms / 1e3 * self.percent / 100)
        end_ns = time.monotonic_ns()
        spans_ms = [*block.spans_ms[:-1], block.spans_ms[-1] + (end_ns - block.end_ns) / 1e6]
        return replace(block, end_ns=end_ns, spans_ms=spans_ms)

    def size(self, duration_s: float, iteration_ms: float, group: int = 1) -> int:
        return self.work.size(duration_s, iteration_ms, group)

    def group(self, clock: Clock, iteration_ms: float, iterations: int | None = None) -> int:
        return self.work.group(clock, iteration_ms, iterations)
