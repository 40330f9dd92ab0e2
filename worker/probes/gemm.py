"""Rate of matrix products that a device reaches in a precision.

Square matrices are tried from small to large, each in a burst (a short run of products), then all once more. The second
bursts choose the size to measure. During the first ones the device is still cool, which favours small matrices.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import Final

import torch

from worker.measure import Work
from worker.probes.base import Bench, Probe
from worker.verify.products import flops

SIDES: Final = {"cuda": (4096, 8192, 12288, 16384), "cpu": (256, 512, 1024)}
_LONGEST_MS: Final = 60.0
"""Longest expected time of a product to try, in milliseconds. The quick profile measures for at most 1 s."""


@dataclass(frozen=True)
class _Burst:
    side: int
    times_ms: list[float]

    @property
    def rate(self) -> float:
        """Floating-point operations per millisecond."""
        return flops(self.side) / fmean(self.times_ms)


def prepare(bench: Bench) -> Probe:
    """Return a probe that multiplies square matrices, of the side with the highest rate (operations a second).

    Tries SIDES in order until matrices do not fit into `bench.room()` or a product would take over 60 ms. best_ms of
    the result: iteration times in the faster one of the two bursts with the chosen side.
    """
    tries = [(burst, _burst(bench, burst.side)) for burst in _bursts(bench)]
    chosen = max(tries, key=lambda bursts: bursts[-1].rate)
    best = max(chosen, key=lambda burst: burst.rate)
    left, right, product = _operands(bench, best.side)
    return Probe(
        steps={"iteration": lambda: torch.mm(left, right, out=product)},
        tensors=(left, right, product),
        flops=flops(best.side),
        best_ms=best.times_ms,
    )


def _bursts(bench: Bench) -> list[_Burst]:
    bursts: list[_Burst] = []
    for side in SIDES[bench.device.type]:
        if bursts and not _worth_trying(bench, side, bursts[-1]):
            break
        bursts.append(_burst(bench, side))
    return bursts


def _worth_trying(bench: Bench, side: int, last: _Burst) -> bool:
    fits = 3 * side**2 * bench.dtype.itemsize <= bench.room()
    return fits and flops(side) / last.rate <= _LONGEST_MS


def _burst(bench: Bench, side: int) -> _Burst:
    left, right, product = _operands(bench, side)
    work = Work({"iteration": lambda: torch.mm(left, right, out=product)})
    work.block(bench.clock, 1)
    iteration_ms = work.block(bench.clock, 1).wall_ms
    group = work.group(bench.clock, iteration_ms)
    block = work.block(bench.clock, work.size(bench.burst_s, iteration_ms, group), group)
    return _Burst(side, [span_ms / group for span_ms in block.spans_ms])


def _operands(bench: Bench, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    left, right = bench.numbers(side, side), bench.numbers(side, side)
    return left, right, torch.empty_like(left)
