"""End-to-end latency of inference: from inputs to outputs in the host's memory. Measured after the forward passes.

    pinned inputs ── copy ──▶ device ── forward ──▶ outputs ── copy ──▶ pinned buffer, then the next one

The buffer has at most 64 MiB: pinning memory for all logits of a language model takes longer than the rest of a launch.
"""

from collections.abc import Callable, Iterable
from time import monotonic, perf_counter_ns  # bound before a model's code can replace them
from typing import Final

import torch

from worker import devices, outputs
from worker.stopping import LEAST_ITERATIONS

LONGEST_S: Final = 0.3
"""Limit in seconds for all repetitions together. The last repetition may end later."""
_BUFFER_BYTES: Final = 64 * 1024 * 1024


def times_ms(
    forward: Callable[[], object],
    inputs: Iterable[torch.Tensor],
    device: torch.device,
    least_s: float,
    passes_ms: list[float],
) -> list[float]:
    """Return end-to-end latencies in milliseconds, one for each repetition, in order.

    A repetition copies the inputs from the host into `inputs` (the tensors on the device that `forward` reads), calls
    `forward` and copies the outputs to the host. All repetitions take half of `least_s` (the profile's shortest
    measurement in seconds) and at most LONGEST_S (0.3 s), or longer if LEAST_ITERATIONS (3) need it. On a CPU nothing
    is run: the result is `passes_ms`, the measured times of the forward passes.
    """
    if device.type == "cpu":
        return passes_ms
    trip = _RoundTrip(forward, inputs, device)
    times: list[float] = []
    ends = monotonic() + min(least_s / 2, LONGEST_S)
    while len(times) < LEAST_ITERATIONS or monotonic() < ends:
        start_ns = perf_counter_ns()
        trip.once()
        times.append((perf_counter_ns() - start_ns) / 1e6)
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
    # Without a copy where the tensor has no holes.
    dense = tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
    flat = tensor.as_strided((tensor.numel(),), (1,)) if dense else tensor.contiguous().view(-1)
    return flat.view(torch.uint8)
