"""Input and output of every probe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from worker.timing import Clock, Step

_CPU_ROOM: Final = 256 * 1024 * 1024


@dataclass(frozen=True)
class Bench:
    """Environment of a probe. dtype: of the cell's precision. burst_s: length of one burst at a shape."""

    device: torch.device
    dtype: torch.dtype
    generator: torch.Generator
    clock: Clock
    burst_s: float

    def numbers(self, *shape: int) -> torch.Tensor:
        """Normally distributed random numbers: a bf16 product of zeros runs 13 % faster [H200]."""
        return torch.randn(shape, generator=self.generator, device=self.device, dtype=self.dtype)

    def room(self) -> int:
        """Bytes that a probe may take: half of the free memory of a GPU, 256 MiB of the host."""
        if self.device.type != "cuda":
            return _CPU_ROOM
        free, _ = torch.cuda.mem_get_info(self.device)
        return free // 2


@dataclass(frozen=True)
class Probe:
    """Work to be measured. steps: of one iteration, as in measure.Work. tensors: on the device.

    flops: of one iteration. bytes_moved: series → bytes of one iteration. best_ms: iteration times in the best burst.
    """

    steps: dict[str, Step]
    tensors: Sequence[torch.Tensor]
    flops: float | None = None
    bytes_moved: dict[str, int] = field(default_factory=dict)
    best_ms: list[float] = field(default_factory=list)
