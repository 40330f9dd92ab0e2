"""End-to-end latency of inference: from inputs to outputs in the host's memory, measured after all else.

    pinned inputs ── copy ──▶ device ── forward ──▶ outputs ── copy ──▶ pinned buffer, and only now the next one

The buffer has at most 64 MiB: pinning room for all logits of a language model takes longer than the rest of the launch.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final

import torch

from worker import devices, outputs

LONGEST_S: Final = 0.3
"""For all latencies, in any profile; the last one may end later."""
_BUFFER_BYTES: Final = 64 * 1024 * 1024


def times_ms(
    forward: Callable[[], object], inputs: Iterable[torch.Tensor], device: torch.device, least_s: float
) -> list[float]:
    """Latencies in milliseconds of `forward` over `inputs`, for half of `least_s` or 0.3 s, at least one."""
    trip = _RoundTrip(forward, inputs, device)
    times: list[float] = []
    ends = time.monotonic() + min(least_s / 2, LONGEST_S)
    while not times or time.monotonic() < ends:
        start_ns = time.perf_counter_ns()
        trip.once()
        times.append((time.perf_counter_ns() - start_ns) / 1e6)
    return times


class _RoundTrip:
    def __init__(self, forward: Callable[[], object], inputs: Iterable[torch.Tensor], device: torch.device) -> None:
        self._forward, self._device = forward, device
        self._inputs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._buffer = torch.empty(0, dtype=torch.uint8)
        if device.type == "cuda":
            self._inputs = [(tensor, _pinned(tensor)) for tensor in inputs]
            largest = max((output.nbytes for output in outputs.tensors(forward())), default=0)
            self._buffer = torch.empty(min(largest, _BUFFER_BYTES), dtype=torch.uint8, pin_memory=True)
            self.once()  # the first copies of a process take longer

    def once(self) -> None:
        """One latency's worth of work; over when everything is on the host."""
        for tensor, source in self._inputs:
            tensor.copy_(source, non_blocking=True)
        for output in outputs.tensors(self._forward()):
            if output.is_cuda:
                self._fetch(output)
        devices.synchronize(self._device)

    def _fetch(self, output: torch.Tensor) -> None:
        for piece in torch.split(_bytes_of(output), self._buffer.numel() or 1):
            self._buffer[: piece.numel()].copy_(piece, non_blocking=True)


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes as they lie in memory, without a copy where it has no holes."""
    dense = tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
    flat = tensor.as_strided((tensor.numel(),), (1,)) if dense else tensor.contiguous().view(-1)
    return flat.view(torch.uint8)
