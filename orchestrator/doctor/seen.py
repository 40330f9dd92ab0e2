"""What NVML shows, read in a process of its own: a driver in trouble can hang whoever asks it.

ask ── python -P -m orchestrator.doctor.seen ──▶ Seen, one line of JSON, or nothing in time
"""

import contextlib
import os
import subprocess
import sys
from typing import Final

import msgspec

from orchestrator import cores, devices, spawn, users
from orchestrator.devices import Inventory, NvmlStatus
from orchestrator.errors import DeviceError
from orchestrator.nvml import Nvml
from orchestrator.nvml_errors import NvmlError
from orchestrator.users import Busy
from protocol.cell import Device

TIMEOUT_S: Final = 60.0
"""Without persistence mode, opening NVML wakes every GPU of the node: some seconds for eight."""

_PATIENCE_S: Final = 2.0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a run on all GPUs would find.

    chosen: what --gpu-ids all means here; empty with `why_none`. busy: who uses the GPUs. modes: compute mode by UUID,
    as NVML numbers it, of those that tell.
    """

    inventory: Inventory
    chosen: tuple[Device, ...] = ()
    why_none: str = ""
    busy: tuple[Busy, ...] = ()
    modes: dict[str, int] = {}


def ask(timeout_s: float = TIMEOUT_S) -> Seen:
    """What NVML shows. One that does not answer is an inventory that is broken."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "orchestrator.doctor.seen"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=spawn.child_environment({}),
        start_new_session=True,
    )
    try:
        output, complaint = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # one inside the driver may survive that
            process.communicate(timeout=_PATIENCE_S)
        return _broken(f"NVML did not answer within {timeout_s:g} s; the kernel log may say why, a reboot may help")
    try:
        return msgspec.json.decode(output, type=Seen)
    except (msgspec.DecodeError, UnicodeDecodeError):
        last = complaint.decode("utf-8", errors="replace").strip().splitlines()[-1:]
        return _broken(f"the process that asks NVML ended with {process.returncode} {''.join(last)}".strip())


def _broken(reason: str) -> Seen:
    return Seen(inventory=Inventory(gpus=(), nvml=NvmlStatus.BROKEN, reason=reason))


def _read() -> Seen:
    inventory = devices.inventory()
    if inventory.nvml is not NvmlStatus.OK:
        return Seen(inventory=inventory)
    try:
        chosen = devices.resolve(
            "all",
            visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
            order=os.environ.get("CUDA_DEVICE_ORDER"),
            cores=cores.usable_cores(),
        )
        return Seen(inventory=inventory, chosen=chosen, busy=users.busy(chosen), modes=_modes(inventory))
    except DeviceError as error:
        return Seen(inventory=inventory, why_none=str(error))


def _modes(inventory: Inventory) -> dict[str, int]:
    modes: dict[str, int] = {}
    with contextlib.suppress(NvmlError), Nvml() as nvml:
        for gpu in inventory.gpus:
            with contextlib.suppress(NvmlError):  # one that does not tell is as good as one in the default mode
                modes[gpu.uuid] = nvml.ask(gpu.uuid, lambda lib, handle: int(lib.nvmlDeviceGetComputeMode(handle)))
    return modes


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_read()))
