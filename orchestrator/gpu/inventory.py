"""NVML's view of this machine, read once before a run, in a process of its own because a driver can hang.

look ── python -P -m orchestrator.gpu.inventory ──▶ Seen: the GPUs, their processes, their compute modes
"""

import enum
import functools
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from orchestrator.gpu import mig, nvml
from orchestrator.gpu.nvml import GpuProcess, Nvml, UnreadableGpu
from orchestrator.gpu.nvml_errors import NvmlAbsentError, NvmlError
from orchestrator.system import subprocess_query
from orchestrator.system.subprocess_query import Silence
from protocol.cell import Device

TIMEOUT_S: Final = 60.0
"""Seconds to wait for NVML. Without persistence mode, opening NVML wakes every GPU: ten seconds or more for eight."""
REMARK_S: Final = 5.0


class NvmlStatus(enum.StrEnum):
    """Whether NVML works. ABSENT: no NVIDIA driver is installed or loaded. BROKEN: one is, but it fails or hangs."""

    OK = "ok"
    ABSENT = "absent"
    BROKEN = "broken"


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The GPUs of the machine in NVML's order, and their MIG slices.

    gpus, slices: only readable ones. A GPU in MIG mode is in `gpus`, too, though CUDA sees only its slices. unreadable:
    index of each other GPU → why it is not. reason: why NVML or some GPUs are unusable, or "". hangs: True if NVML did
    not answer in time. cuda_driver_version: newest CUDA version that the driver supports, such as "13.0". None: the
    version is unknown.
    """

    gpus: tuple[Device, ...]
    nvml: NvmlStatus
    reason: str = ""
    slices: tuple[Device, ...] = ()
    unreadable: dict[int, str] = {}
    hangs: bool = False
    driver_version: str | None = None
    cuda_driver_version: str | None = None


class Use(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Use of a GPU or slice. processes: None if NVML cannot list them. wrong: why NVML did not answer, or ""."""

    processes: tuple[GpuProcess, ...] | None = None
    wrong: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer of `look`. uses: UUID of a GPU or slice → Use. modes: UUID of a GPU → NVML's compute mode, if readable."""

    inventory: Inventory
    uses: dict[str, Use] = {}
    modes: dict[str, int] = {}


Look = Callable[[], Seen]


def once(waiting: Callable[[str], None] | None = None) -> Look:
    """Return a function without arguments: its first call reads the GPUs by `look`, later calls return the same.

    waiting: called once with a message if NVML has not answered after REMARK_S; None: no message.
    """
    return functools.cache(lambda: look(waiting))


def look(waiting: Callable[[str], None] | None = None, timeout_s: float | None = None) -> Seen:
    """Read GPUs, processes and compute modes with NVML. CUDA_VISIBLE_DEVICES has no effect.

    Errors of NVML are part of the result. waiting: called once with a message if there is no answer after REMARK_S.
    timeout_s: seconds after which NVML counts as hanging; None for TIMEOUT_S.
    """
    if (missing := nvml.missing()) is not None:
        return _without(missing)
    limit_s = TIMEOUT_S if timeout_s is None else timeout_s

    def remark() -> None:
        if waiting is not None:
            waiting(f"still waiting for the NVIDIA driver (NVML), for up to {limit_s:g} s")

    match subprocess_query.ask("orchestrator.gpu.inventory", Seen, limit_s, waiting=remark, remark_s=REMARK_S):
        case Silence(seconds=float(seconds)):
            return _broken(
                f"The NVIDIA driver hangs: NVML did not answer within {seconds:g} s. Look into the kernel log (dmesg: "
                "Xid, NVRM). If `nvidia-smi` hangs too, reboot",
                hangs=True,
            )
        case Silence(end=end, last_line=last_line):
            printed = f" (output: {last_line})" if last_line else ""
            return _broken(
                f"The process that queries NVML ended: {end}{printed}. Look into `nvidia-smi` and the kernel log"
            )
        case Seen() as seen:
            return seen


def _broken(reason: str, *, hangs: bool = False) -> Seen:
    return Seen(inventory=Inventory(gpus=(), nvml=NvmlStatus.BROKEN, reason=reason, hangs=hangs))


def _without(error: NvmlError) -> Seen:
    if isinstance(error, NvmlAbsentError):
        return Seen(inventory=Inventory(gpus=(), nvml=NvmlStatus.ABSENT, reason=str(error)))
    return _broken(str(error))


# ── the process itself ────────────────────────────────────────────────────────────────────────────────────────────────


def _read() -> Seen:
    try:
        with Nvml() as opened:
            found = _inventory(opened)
            devices = (*found.gpus, *found.slices)
            return Seen(
                inventory=found,
                uses={device.uuid: _use(opened, device.uuid) for device in devices},
                modes={gpu.uuid: mode for gpu in found.gpus if (mode := _mode(opened, gpu.uuid)) is not None},
            )
    except NvmlError as error:
        return _without(error)


def _inventory(opened: Nvml) -> Inventory:
    found = [_with_slices(opened, gpu) for gpu in opened.gpus()]
    unreadable = {gpu.index: gpu.reason for gpu in found if isinstance(gpu, UnreadableGpu)}
    readable = [gpu for gpu in found if not isinstance(gpu, UnreadableGpu)]
    return Inventory(
        gpus=tuple(gpu for gpu, *_ in readable),
        slices=tuple(part for _, *slices in readable for part in slices),
        nvml=NvmlStatus.OK,
        reason="; ".join(f"GPU {index} cannot be used: {reason}" for index, reason in unreadable.items()),
        unreadable=unreadable,
        driver_version=opened.driver_version,
        cuda_driver_version=opened.cuda_driver_version,
    )


def _with_slices(opened: Nvml, gpu: Device | UnreadableGpu) -> tuple[Device, ...] | UnreadableGpu:
    if isinstance(gpu, UnreadableGpu):
        return gpu
    try:
        return (gpu, *mig.slices(opened, gpu))
    except NvmlError as error:
        return UnreadableGpu(index=gpu.gpu_id, reason=str(error))  # in MIG mode CUDA sees only slices


def _use(opened: Nvml, uuid: str) -> Use:
    try:
        return Use(processes=opened.processes(uuid))
    except NvmlError as error:
        return Use(wrong=str(error))


def _mode(opened: Nvml, uuid: str) -> int | None:
    try:
        return opened.ask(uuid, lambda lib, handle: int(lib.nvmlDeviceGetComputeMode(handle)))
    except NvmlError:
        return None


if __name__ == "__main__":
    sys.exit(subprocess_query.answer(_read))
