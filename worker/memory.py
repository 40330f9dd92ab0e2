"""Memory use of device and process. Also works if torch cannot be imported."""

import resource
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

_KIB: Final = 1024
_STATUS: Final = Path("/proc/self/status")
_CLEAR_REFS: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"


@dataclass(frozen=True)
class Peaks:
    """Peak use of a device's memory in bytes since the last reset; None on a CPU device."""

    allocated_bytes: int | None = None
    reserved_bytes: int | None = None


def peaks(device: "torch.device") -> Peaks:
    """Read the peaks of the device's caching allocator since the last reset_peaks."""
    if device.type != "cuda":
        return Peaks()
    import torch

    return Peaks(torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device))


def release_cached(device: "torch.device") -> None:
    """Give unused memory of torch's caching allocator back to the device. Does nothing on a CPU device."""
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()


def reset_peaks(device: "torch.device") -> None:
    """Reset the peaks of the device's caching allocator to the memory in use now. Does nothing on a CPU device."""
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def allocator_retries(device: "torch.device") -> int:
    """Return how often a failed cudaMalloc emptied the allocator's cache so far; 0 on a CPU device."""
    if device.type != "cuda":
        return 0
    import torch

    return int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))


def module_bytes(module: "torch.nn.Module") -> int:
    """Return the total bytes of all parameters and buffers. A shared tensor counts once."""
    tensors = {*module.parameters(), *module.buffers()}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def parameter_count(module: "torch.nn.Module") -> int:
    """Return the number of parameters. A shared parameter counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


def reset_resident() -> None:
    """Reset this process's peak of resident memory to the amount in use now. Does nothing if the kernel refuses."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return


def resident_peak() -> int:
    """Return this process's peak of resident memory in bytes, since its last reset.

    A reset is a call of reset_resident that the kernel did not refuse. Without one, the peak is that since the process
    started.
    """
    peak = _status_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB if peak is None else peak


@dataclass(frozen=True)
class Headroom:
    """Used, free and allowed memory in bytes at one moment. None: unknown, or no limit.

    device_*: memory of the GPU, if there is a CUDA context. data, data_limit: data segment and RLIMIT_DATA.
    address_limit: RLIMIT_AS. available: memory of the host. device_error: CUDA's error when queried for memory.
    """

    device_free: int | None = None
    device_total: int | None = None
    device_error: RuntimeError | None = None
    data: int | None = None
    data_limit: int | None = None
    address_limit: int | None = None
    available: int | None = None

    def as_text(self) -> dict[str, str]:
        """Return known fields as text: name, such as "device_free_bytes" → number, and "device_error" → its message."""
        sizes = {f"{name}_bytes": str(value) for name, value in vars(self).items() if isinstance(value, int)}
        return sizes if self.device_error is None else sizes | {"device_error": str(self.device_error)}


def headroom() -> Headroom:
    """Read the current Headroom. Never raises, and imports nothing."""
    host = Headroom(
        data=_status_bytes("VmData"),
        data_limit=_limit(resource.RLIMIT_DATA),
        address_limit=_limit(resource.RLIMIT_AS),
        available=_proc_bytes(Path("/proc/meminfo"), "MemAvailable"),
    )
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return host
    try:
        free, total = torch.cuda.mem_get_info()
    except RuntimeError as error:
        return replace(host, device_error=error)
    return replace(host, device_free=free, device_total=total)


def _limit(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _status_bytes(field: str) -> int | None:
    return _proc_bytes(_STATUS, field)


def _proc_bytes(path: Path, field: str) -> int | None:
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * _KIB  # "123 kB"
    return None
