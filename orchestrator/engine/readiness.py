"""Check whether a run can start on its GPUs as they are now, and which have been lost since it was planned.

one look of NVML (inventory.py) ─▶ hangs, busy, none left: refused
                          └─▶ some gone: the others go on ─▶ CUDA tried on those (cuda_probe.py)
"""

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
    """Return the driver version, None where NVML is missing or broken, and the GPUs that are gone.

    planned: the look of the plan; None to look, and to try CUDA too. Raises DeviceError where the driver hangs, no
    device is left, foreign processes compute on them, or CUDA does not work.
    """
    gpus = [device for device in stored.devices if device.kind is DeviceKind.CUDA]
    if not gpus:
        return None, ()
    look = planned or inventory.once(lambda words: display.tell(Notice(level="warning", message=words)))
    found = look().inventory
    if found.hangs:
        raise DeviceError(f"{found.reason}. Nothing was started.")
    missing: list[Device] = []
    if found.nvml is NvmlStatus.OK:
        missing = _missing(stored.devices, gpus, found)
        there = [gpu for gpu in gpus if gpu not in missing]
        refusal = gpu_users.refusal(there, gpu_users.busy(there, look))
        if refusal is not None and not stored.configuration.allow_busy:
            raise DeviceError(refusal)
        for gpu in gpu_users.unseen(there, look):
            words = f"NVML does not tell who uses {gpu.label}: whether others compute on it during this run is not seen"
            display.tell(Notice(level="warning", message=words))
    else:
        display.tell(Notice(level="warning", message=f"the GPUs cannot be looked at: {found.reason}"))
    if planned is None:
        cuda_probe.require([gpu for gpu in gpus if gpu not in missing])
    at_ns = time.monotonic_ns()
    gone = (GpuBroken(uuid=gpu.uuid, reason="it is not in this machine any more", at_ns=at_ns) for gpu in missing)
    return found.driver_version, tuple(gone)


def _missing(devices: Sequence[Device], gpus: Sequence[Device], found: Inventory) -> list[Device]:
    """The GPUs that are gone. Raises DeviceError where none is left, or a slice is gone while its GPU is there."""
    present = {gpu.uuid for gpu in (*found.gpus, *found.slices)}
    missing = [gpu for gpu in gpus if gpu.uuid not in present]
    recut = [gpu for gpu in missing if gpu.slice_of in present]
    for gpu in recut or (missing if len(missing) == len(devices) else ()):
        raise DeviceError(f"{gpu.label} of this run ({gpu.uuid}) is not in this machine. Nothing was started.")
    return missing
