"""Bandwidth of the device's own memory, and of transfers between host and device.

A copy of n bytes within the device counts 2 n bytes, and a triad (a = b + s c) counts 3 n. A transfer counts n, as in
nvbandwidth.
"""

from typing import Final

import torch

from worker.probes.base import Bench, Probe

_MIB: Final = 1024 * 1024
BUFFER: Final = {"cuda": 4096 * _MIB, "cpu": 64 * _MIB}
"""Kind of device → largest number of bytes of each of three buffers. GPU caches are far smaller (up to 128 MiB)."""
TRANSFER: Final = 512 * _MIB  # of each buffer, as in nvbandwidth
_SCALE: Final = 0.5


def device_memory(bench: Bench) -> Probe:
    """Prepare a probe of the device's memory: copy and triad, one after the other."""
    size = min(BUFFER[bench.device.type], bench.room() // 3)
    target, left, right = (bench.numbers(size // bench.dtype.itemsize) for _ in range(3))
    return Probe(
        steps={
            "copy": lambda: target.copy_(left),
            "triad": lambda: torch.add(left, right, alpha=_SCALE, out=target),
        },
        tensors=(target, left, right),
        bytes_moved={"copy": 2 * target.nbytes, "triad": 3 * target.nbytes},
    )


def to_device(bench: Bench) -> Probe:
    """Prepare a probe of transfers from the host's pinned memory to the device, a GPU."""
    here, there = _buffers(bench)
    return Probe(
        steps={"iteration": lambda: there.copy_(here, non_blocking=True)},
        tensors=(there,),
        bytes_moved={"iteration": there.nbytes},
    )


def to_host(bench: Bench) -> Probe:
    """Prepare a probe of transfers from the device, a GPU, to the host's pinned memory."""
    here, there = _buffers(bench)
    return Probe(
        steps={"iteration": lambda: here.copy_(there, non_blocking=True)},
        tensors=(there,),
        bytes_moved={"iteration": there.nbytes},
    )


def _buffers(bench: Bench) -> tuple[torch.Tensor, torch.Tensor]:
    there = bench.numbers(min(TRANSFER, bench.room()) // bench.dtype.itemsize)
    here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
    return here.copy_(there), there
