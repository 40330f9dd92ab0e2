"""Argument (Bench) and result (Probe) of every probe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from worker.timing import Clock, Step

_CPU_ROOM: Final = 256 * 1024 * 1024


@dataclass(frozen=True)
class Bench:
    """Environment of a probe. dtype: type of the cell's precision. burst_s: seconds of a burst, a short trial run.

    generator: on the device, seeded by the cell. clock: the device's (devices.clock_for).
    """

    device: torch.device
    dtype: torch.dtype
    generator: torch.Generator
    clock: Clock
    burst_s: float

    def numbers(self, *shape: int) -> torch.Tensor:
        """Return normally distributed random numbers of this shape. Products of zeros would take less time."""
        return torch.randn(shape, generator=self.generator, device=self.device, dtype=self.dtype)

    def room(self) -> int:
        """Return the bytes that a probe may use: half of a GPU's free memory, 256 MiB on a CPU device."""
        if self.device.type != "cuda":
            return _CPU_ROOM
        free, _ = torch.cuda.mem_get_info(self.device)
        return free // 2


@dataclass(frozen=True)
class Probe:
    """Work of a probe. tensors: all of its tensors on the device.

    steps: name of the series of times → step, in order, of one iteration. flops: operations of one iteration, None if
    only bytes count. bytes_moved: series → bytes moved in one iteration. best_ms: only of gemm.py: iteration times in
    the faster burst (short trial run) with the chosen matrix size.
    """

    steps: dict[str, Step]
    tensors: Sequence[torch.Tensor]
    flops: float | None = None
    bytes_moved: dict[str, int] = field(default_factory=dict)
    best_ms: list[float] = field(default_factory=list)
