"""Foreign processes (not of this run) on the GPUs of a run, before anything starts. They are never ended."""

import os
from collections.abc import Iterator, Sequence

import msgspec

from orchestrator.errors import DeviceError
from orchestrator.gpu.inventory import Look, Use
from orchestrator.gpu.nvml import GpuProcess
from orchestrator.system import host
from protocol.cell import Device, DeviceKind


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign process on a GPU. compute: False if it only draws. name, used_bytes: None if unknown."""

    device: Device
    pid: int
    name: str | None
    used_bytes: int | None
    compute: bool

    def __str__(self) -> str:
        process = f"PID {self.pid}" + (f" {self.name}" if self.name else "")
        memory = "" if self.used_bytes is None else f", {self.used_bytes / 2**30:.1f} GiB"
        return f"{self.device.label} ({self.device.uuid[:12]}…) is used by another process ({process}{memory})"


def busy(devices: Sequence[Device], look: Look) -> tuple[Busy, ...]:
    """Return a Busy for each foreign process on a GPU, in the order of `devices`. look: queries NVML.

    GPUs whose processes NVML cannot list (see `unseen`) count as unused. Raises DeviceError if NVML fails.
    """
    return tuple(
        Busy(
            device=gpu,
            pid=process.pid,
            name=host.process_name(process.pid),
            used_bytes=process.used_bytes,
            compute=process.compute,
        )
        for gpu in devices
        for process in _processes(gpu, look) or ()
        if process.pid != os.getpid()
    )


def unseen(devices: Sequence[Device], look: Look) -> tuple[Device, ...]:
    """Return the GPUs whose processes NVML cannot list, so other processes may use them unnoticed.

    look: returns what NVML shows. Raises DeviceError if NVML fails.
    """
    return tuple(gpu for gpu in devices if _processes(gpu, look) is None)


def _processes(device: Device, look: Look) -> tuple[GpuProcess, ...] | None:
    if device.kind is not DeviceKind.CUDA:
        return ()
    seen = look()
    use = seen.uses.get(device.uuid, Use(wrong=seen.inventory.reason or "NVML does not show the GPU"))
    if use.wrong:
        raise DeviceError(f"The processes on {device.label} cannot be read: {use.wrong}. Nothing was started")
    return use.processes


def marked(devices: Sequence[Device], processes: Sequence[Busy]) -> tuple[Device, ...]:
    """Return copies of the devices with a new `busy_with`: text about one process that computes on it, or None."""
    users = {process.device.uuid: str(process) for process in processes if process.compute}
    return tuple(msgspec.structs.replace(device, busy_with=users.get(device.uuid)) for device in devices)


def refusal(devices: Sequence[Device], processes: Sequence[Busy]) -> str | None:
    """Return why no run can start on `devices` and what to do; None if none of `processes` computes (all only draw)."""
    blocking = [process for process in processes if process.compute]
    if not blocking:
        return None
    taken = {process.device.uuid for process in blocking}
    rest = [
        device.uuid if device.kind is DeviceKind.CPU or device.slice_of is not None else str(device.gpu_id)
        for device in devices
        if device.uuid not in taken
    ]
    exclude = f"Exclude {'it' if len(taken) == 1 else 'them'} with --gpu-ids {','.join(rest)}, or measure"
    return (
        f"{'; '.join(_users(blocking))}. Nothing was started. {exclude if rest else 'Measure'} anyway with "
        "--allow-busy (results will be marked contaminated)."
    )


def _users(processes: Sequence[Busy]) -> Iterator[str]:
    for device in dict.fromkeys(process.device for process in processes):
        here = [process for process in processes if process.device == device]
        largest = max(here, key=lambda process: process.used_bytes or 0)
        others = f", and by {len(here) - 1} more" if len(here) > 1 else ""
        yield f"{largest}{others}"
