"""One call of an operator under the profiler of torch: its kernels, and the operations that take the longest."""

from typing import Final

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from protocol.result import CallProfile
from worker import devices, memory
from worker.operators import top_operations
from worker.timing import Step

_NO_KERNELS: Final = ("Memcpy", "Memset")


def peak_bytes(call: Step, device: torch.device) -> int:
    """Call once. Return the peak bytes of all memory allocated on the GPU (on a CPU: of the whole process).

    Resets the peaks of device and process (memory.py) first.
    """
    memory.release_cached(device)
    memory.reset_peaks(device)
    memory.reset_resident()
    call()
    devices.synchronize(device)
    allocated = memory.peaks(device).allocated_bytes
    return memory.resident_peak() if allocated is None else allocated


def of_call(call: Step, device: torch.device) -> CallProfile:
    """Return the number of kernels and the longest operations of a call, which runs twice.

    compile_ms and peak_bytes stay None.
    """
    _seen(call, device)
    seen = _seen(call, device)
    if device.type == "cuda":
        kernels = [one for one in seen if one.device_type.name == "CUDA" and not one.is_user_annotation]
        times = [(one.name, (one.time_range.end - one.time_range.start) / 1e3) for one in kernels]
        count = sum(not name.startswith(_NO_KERNELS) for name, _ in times)
    else:
        times = [(one.name, one.self_cpu_time_total / 1e3) for one in seen]
        count = sum(not one.cpu_children for one in seen)
    return CallProfile(kernels=count or None, top=top_operations.longest(times))


def _seen(call: Step, device: torch.device) -> list[FunctionEvent]:
    wanted = [ProfilerActivity.CPU, *((ProfilerActivity.CUDA,) if device.type == "cuda" else ())]
    with profile(activities=wanted) as seen:
        call()
        devices.synchronize(device)
    return list(seen.events())
