"""Communication between the processes of one cell on several devices, on one host.

    a file in a private folder ──▶ torch.distributed: NCCL between GPUs, gloo between CPU devices
    steps: a counter for each process, incremented before each common operation

Sockets are on loopback. Nothing here times out. The orchestrator's deadlines end a launch that hangs, and the counters
show which of its processes hung.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist

from protocol.messages import Assign
from worker.errors import CommunicationError
from worker.step_counter import StepCounter

_BACKENDS: Final = {"cuda": "nccl", "cpu": "gloo"}
_NEVER: Final = timedelta(days=1)  # longer than any phase may take
_ENVIRONMENT: Final = {
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    # torch's own watchdog would abort every process at once, and hide which of them was first.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
}
_MULTICAST: Final = "NCCL_NVLS_ENABLE"


class Gang:
    """Communication between all processes of a launch. Failed operations raise CommunicationError.

    devices: UUID of the device of each rank. size: number of ranks. rank: that of this process. backend: "nccl" or
    "gloo". With one device: `align` does nothing, `largest` returns its arguments, add_up, pass_on: AssertionError.
    """

    def __init__(self, assign: Assign, device: torch.device) -> None:
        """Wait until all processes are connected; with one device, return at once.

        device: the device of this process, already open.
        """
        self.devices = assign.cell.devices
        self.size = len(self.devices)
        self.rank = 0 if assign.gang is None else assign.gang.rank
        self.backend = _BACKENDS[device.type]
        self._device = device
        self._steps: StepCounter | None = None
        if assign.gang is None:
            return
        self._steps = StepCounter(assign.gang)
        os.environ.update(_ENVIRONMENT)
        with self._counted_operation():
            dist.init_process_group(
                self.backend,
                store=dist.FileStore(assign.gang.meeting, self.size),  # type: ignore[attr-defined]  # torch does not say
                rank=self.rank,
                world_size=self.size,
                timeout=_NEVER,
                device_id=device if device.type == "cuda" else None,
            )

    @property
    def leads(self) -> bool:
        """Whether this process is the leader (rank 0), which decides the number of iterations."""
        return self.rank == 0

    def align(self) -> None:
        """Make the devices of all processes wait for each other. The host does not wait for a GPU."""
        if self.size > 1:
            self.add_up(torch.zeros(1, device=self._device))

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replace `tensor`, in place, by its sum over all processes. The host does not wait for a GPU."""
        with self._counted_operation():
            dist.all_reduce(tensor)

    def pass_on(self, by: int, outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
        """Send `outgoing` to the rank `by` higher and receive `incoming` from the rank `by` lower, modulo `size`.

        All processes must call it with the same `by`. The host does not wait for a GPU.
        """
        to, origin = (self.rank + by) % self.size, (self.rank - by) % self.size
        with self._counted_operation():
            both = [dist.P2POp(dist.isend, outgoing, to), dist.P2POp(dist.irecv, incoming, origin)]
            for work in dist.batch_isend_irecv(both):
                work.wait()

    def largest(self, *values: int) -> list[int]:
        """Return the maximum over all processes of each value, in the order of `values`. Waits for the device."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.int64, device=self._device)
        with self._counted_operation():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
            result: list[int] = tensor.tolist()
        return result

    def describe(self) -> str:
        """Return the transport in words: "gloo through the host's memory", or NCCL's version and NVLink multicast.

        With NCCL, for example: "NCCL 2.27.5, NVLink multicast left to NCCL".
        """
        if self.backend == "gloo":
            return "gloo through the host's memory"
        version = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]  # torch does not annotate it
        return f"NCCL {version}, NVLink multicast {multicast()}"

    @contextmanager
    def _counted_operation(self) -> Iterator[None]:
        assert self._steps is not None
        begun = self._steps.begin()
        try:
            yield
        except RuntimeError as error:  # those of torch.distributed are all of this kind
            raise CommunicationError(f"between {self.size} devices, transfer {begun}: {error}") from error


def multicast() -> str:
    """Return how NVLink multicast of NCCL is set: "left to NCCL" if the variable NCCL_NVLS_ENABLE is not set.

    Otherwise the variable and its value, such as "set by NCCL_NVLS_ENABLE=0".
    """
    setting = os.environ.get(_MULTICAST)
    return "left to NCCL" if setting is None else f"set by {_MULTICAST}={setting}"
