"""Check whether a run can start on its GPUs as they are now, and which GPUs have disappeared since it was planned."""

import time
from collections.abc import Sequence

from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine.display_events import Display, Notice
from orchestrator.errors import DeviceError
from orchestrator.gpu import cuda_probe, gpu_users, inventory
from orchestrator.gpu.inventory import Inventory, Look, NvmlStatus
from protocol.cell import Device, DeviceKind
from protocol.messages import GpuBroken


def check(stored: StoredRun, display: Display, planned: Look | None) -> tuple[str | None, tuple[GpuBroken, ...]]:
    """Return (driver version, GPUs that are gone). The version is None without GPUs, or if NVML is missing or broken.

    display: shows warnings. planned: returns what NVML showed when the run was planned. CUDA was tested then, so it is
    not tested again. If `planned` is None, read NVML and test CUDA now.

    Raises DeviceError if the driver hangs, if all devices are gone, if a MIG slice is gone while its GPU is there, if
    CUDA does not work, or if other processes use the GPUs and --allow-busy is not given.
    """
    gpus = [device for device in stored.devices if device.kind is DeviceKind.CUDA]
    if not gpus:
        return None, ()
    look = planned or inventory.once(lambda message: display.tell(Notice(level="warning", message=message)))
    seen = look().inventory
    if seen.hangs:
        raise DeviceError(f"{seen.reason}. Nothing was started.")
    missing: list[Device] = []
    if seen.nvml is NvmlStatus.OK:
        missing = _missing(stored.devices, gpus, seen)
        there = [gpu for gpu in gpus if gpu not in missing]
        refusal = gpu_users.refusal(there, gpu_users.busy(there, look))
        if refusal is not None and not stored.configuration.allow_busy:
            raise DeviceError(refusal)
        for gpu in gpu_users.unseen(there, look):
            message = f"NVML does not report the processes on {gpu.label}: contamination by others cannot be detected"
            display.tell(Notice(level="warning", message=message))
    else:
        display.tell(Notice(level="warning", message=f"NVML cannot read the GPUs: {seen.reason}"))
    if planned is None:
        cuda_probe.require([gpu for gpu in gpus if gpu not in missing])
    at_ns = time.monotonic_ns()
    gone = (GpuBroken(uuid=gpu.uuid, reason="the GPU is no longer in this machine", at_ns=at_ns) for gpu in missing)
    return seen.driver_version, tuple(gone)


def _missing(devices: Sequence[Device], gpus: Sequence[Device], seen: Inventory) -> list[Device]:
    """Return those of `gpus` (GPUs and slices of the run) that are not in `seen`. devices: all devices of the run.

    Raises DeviceError if all devices are gone, or if a slice is gone while its GPU is there.
    """
    present = {gpu.uuid for gpu in (*seen.gpus, *seen.slices)}
    missing = [gpu for gpu in gpus if gpu.uuid not in present]
    recut = [gpu for gpu in missing if gpu.slice_of in present]
    for gpu in recut or (missing if len(missing) == len(devices) else ()):
        raise DeviceError(f"{gpu.label} of this run ({gpu.uuid}) is not in this machine. Nothing was started.")
    return missing
