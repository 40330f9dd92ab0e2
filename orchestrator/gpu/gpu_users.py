"""Foreign processes on the GPUs of a run, before anything starts. They are never ended."""

import os
from collections.abc import Iterator, Sequence

import msgspec

from orchestrator.errors import DeviceError
from orchestrator.gpu.inventory import Look, Use
from orchestrator.gpu.nvml import GpuProcess
from orchestrator.system import host
from protocol.cell import Device, DeviceKind


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign process on a GPU. compute: it can run kernels, and does not only draw."""

    device: Device
    pid: int
    name: str | None
    used_bytes: int | None
    compute: bool

    def __str__(self) -> str:
        who = f"PID {self.pid}" + (f" {self.name}" if self.name else "")
        memory = "" if self.used_bytes is None else f", {self.used_bytes / 2**30:.1f} GiB"
        return f"{self.device.label} ({self.device.uuid[:12]}…) is used by another process ({who}{memory})"


def busy(devices: Sequence[Device], look: Look) -> tuple[Busy, ...]:
    """Return the foreign processes with a context on one of the GPUs. Raises DeviceError if NVML gives no answer."""
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
    """Return the GPUs whose processes NVML does not show. Raises DeviceError where NVML could not be asked."""
    return tuple(gpu for gpu in devices if _processes(gpu, look) is None)


def _processes(device: Device, look: Look) -> tuple[GpuProcess, ...] | None:
    if device.kind is not DeviceKind.CUDA:
        return ()
    seen = look()
    use = seen.uses.get(device.uuid, Use(wrong=seen.inventory.reason or "NVML does not show it"))
    if use.wrong:
        raise DeviceError(f"Who uses {device.label} cannot be read: {use.wrong}. Nothing was started")
    return use.processes


def marked(devices: Sequence[Device], found: Sequence[Busy]) -> tuple[Device, ...]:
    """Mark the devices that others compute on with the process."""
    users = {one.device.uuid: str(one) for one in found if one.compute}
    return tuple(msgspec.structs.replace(device, busy_with=users.get(device.uuid)) for device in devices)


def refusal(devices: Sequence[Device], found: Sequence[Busy]) -> str | None:
    """Why a run on `devices` is not started while `found` use them, and what to do; None where it may start."""
    blocking = [one for one in found if one.compute]
    if not blocking:
        return None
    taken = {one.device.uuid for one in blocking}
    rest = [
        device.uuid if device.kind is DeviceKind.CPU or device.slice_of is not None else str(device.gpu_id)
        for device in devices
        if device.uuid not in taken
    ]
    leave_out = f"Leave {'it' if len(taken) == 1 else 'them'} out with --gpu-ids {','.join(rest)}, or measure"
    return (
        f"{'; '.join(_users(blocking))}. Nothing was started. {leave_out if rest else 'Measure'} beside it with "
        "--allow-busy (results will be marked contaminated)."
    )


def _users(found: Sequence[Busy]) -> Iterator[str]:
    """A line for each device, with its largest process."""
    for device in dict.fromkeys(one.device for one in found):
        here = sorted((one for one in found if one.device == device), key=lambda one: one.used_bytes or 0, reverse=True)
        others = f", and by {len(here) - 1} more" if len(here) > 1 else ""
        yield f"{here[0]}{others}"
