"""Slowdowns and power caps of a GPU's clocks over a whole run, from its samples. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from orchestrator.gpu.telemetry import clock_events
from protocol.messages import Sample

WINDOW_NS: Final = 600_000_000_000


@dataclass(frozen=True)
class ClockUse:
    """Shares, 0 to 1, of samples with a lowered clock, among the samples whose clock-event reasons could be read.

    readings: number of those samples; all shares are 0 without any. slowed: slowed down by heat or a hardware brake.
    slowed_worst: highest such share in any ten minutes, None if no boot has ten minutes. capped: at the power limit.
    """

    readings: int = 0
    slowed: float = 0.0
    slowed_worst: float | None = None
    capped: float = 0.0


def clock_use(boots: Iterable[Sequence[Sample]]) -> ClockUse:
    """Compute the shares for one GPU. boots: its samples by time, one sequence for each boot of the machine."""
    readable = [[sample for sample in samples if sample.reasons is not None] for samples in boots]
    masks = Counter([sample.reasons or 0 for samples in readable for sample in samples])
    if not masks:
        return ClockUse()
    readings = masks.total()
    return ClockUse(
        readings=readings,
        slowed=sum(times for mask, times in masks.items() if mask & clock_events.SLOWDOWN) / readings,
        slowed_worst=max((share for share in map(_worst, readable) if share is not None), default=None),
        capped=sum(times for mask, times in masks.items() if mask & clock_events.POWER_CAP) / readings,
    )


def _worst(samples: Sequence[Sample]) -> float | None:
    total = [0, *accumulate([bool((sample.reasons or 0) & clock_events.SLOWDOWN) for sample in samples])]
    if not total[-1]:
        return 0.0 if samples and samples[-1].at_ns - samples[0].at_ns >= WINDOW_NS else None
    worst: float | None = None
    begin = 0
    for end, sample in enumerate(samples):
        while begin + 1 <= end and sample.at_ns - samples[begin + 1].at_ns >= WINDOW_NS:
            begin += 1
        if sample.at_ns - samples[begin].at_ns >= WINDOW_NS:
            share = (total[end + 1] - total[begin]) / (end + 1 - begin)
            worst = share if worst is None else max(worst, share)
    return worst
