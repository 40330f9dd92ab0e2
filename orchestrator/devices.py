"""Which devices there are, which of them a run was asked to use, and who uses them already.

For the command line, before anything starts. GPUs are found with NVML alone: a CUDA context in the parent would take
memory on every GPU. Words of --gpu-ids:

    all              every GPU that CUDA_VISIBLE_DEVICES leaves, or every GPU of the machine
    0,1,2            places in that same list; without CUDA_VISIBLE_DEVICES, the numbers of nvidia-smi
    GPU-5317350e…    a UUID, or the beginning of one
    cpu:0,cpu:1      slices of the cores
"""

import enum
import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import psutil

from orchestrator.cores import cpu_devices, share_near_cores
from orchestrator.errors import DeviceError
from orchestrator.nvml import Nvml, NvmlAbsentError, NvmlError, UnreadableGpu
from orchestrator.visible import visible_gpus
from protocol.cell import Device, DeviceKind

_TRY_CPU: Final = "To try it on the CPU, use --gpu-ids cpu:0,cpu:1"
_WORD: Final = re.compile(r"all|[0-9]{1,6}|GPU-[0-9A-Za-z-]*|cpu:[0-9]{1,6}")


class NvmlStatus(enum.StrEnum):
    """Whether GPUs can be seen at all. BROKEN is never answered with a silent fall-back to CPU devices."""

    OK = "ok"
    ABSENT = "absent"
    BROKEN = "broken"


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All GPUs of the machine in NVML's order, and whether that list can be relied on.

    unreadable: index → why, for a GPU that is counted but cannot be opened. reason: in words, empty where there is
    nothing to say. Versions are None without NVML.
    """

    gpus: tuple[Device, ...]
    nvml: NvmlStatus
    reason: str = ""
    unreadable: dict[int, str] = {}
    driver_version: str | None = None
    cuda_driver_version: str | None = None


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign process on a GPU.

    name: of its program, None where it cannot be read (another container, say); used_bytes: None where the driver does
    not tell; compute: it can run kernels, and does not only draw.
    """

    device: Device
    pid: int
    name: str | None
    used_bytes: int | None
    compute: bool

    def __str__(self) -> str:
        who = f"PID {self.pid}" + (f" {self.name}" if self.name else "")
        memory = "" if self.used_bytes is None else f", {self.used_bytes / 2**30:.1f} GiB"
        return f"{self.device.label} ({self.device.uuid[:12]}…) is used by another process ({who}{memory})"


def inventory() -> Inventory:
    """What NVML shows of this machine, whatever CUDA_VISIBLE_DEVICES says. Never raises for what NVML cannot do."""
    try:
        with Nvml() as nvml:
            found = nvml.gpus()
            unreadable = {gpu.index: gpu.reason for gpu in found if isinstance(gpu, UnreadableGpu)}
            return Inventory(
                gpus=tuple(gpu for gpu in found if isinstance(gpu, Device)),
                nvml=NvmlStatus.OK,
                reason="; ".join(f"GPU {index} cannot be used: {reason}" for index, reason in unreadable.items()),
                unreadable=unreadable,
                driver_version=nvml.driver_version,
                cuda_driver_version=nvml.cuda_driver_version,
            )
    except NvmlAbsentError as error:
        return Inventory(gpus=(), nvml=NvmlStatus.ABSENT, reason=str(error))
    except NvmlError as error:
        return Inventory(gpus=(), nvml=NvmlStatus.BROKEN, reason=str(error))


def resolve(
    gpu_ids: str,
    *,
    visible: str | None,
    cores: tuple[int, ...],
    order: str | None = None,
    origin: str = "--gpu-ids",
) -> tuple[Device, ...]:
    """The devices that `gpu_ids` names, in its order. origin: who said so, for messages.

    visible, order: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, None where not set; cores: those we may run on.
    A GPU's `gpu_id` is its place in what CUDA_VISIBLE_DEVICES leaves. Raises DeviceError, saying what to do.
    """
    words = [word.strip() for word in gpu_ids.split(",")]
    if not all(words):
        raise DeviceError(f"{origin}: {gpu_ids!r}: a device is missing between commas. Give all, or a list like 0,1")
    numbers = [_cpu_number(word, origin) for word in words]
    gpus = _Gpus(inventory(), visible, order, origin) if None in numbers else None
    slices = iter(cpu_devices([number for number in numbers if number is not None], cores))
    chosen: list[Device] = []
    for word, number in zip(words, numbers, strict=True):
        if number is not None:
            chosen.append(next(slices))
        elif gpus is not None:
            chosen += gpus.named(word)
    _require_distinct(chosen, origin)
    return share_near_cores(chosen, cores)


def busy(devices: Sequence[Device]) -> tuple[Busy, ...]:
    """The processes, other than this one, that have a context on one of the GPUs. Raises DeviceError without NVML.

    A process in another container is not seen by every driver.
    """
    gpus = [device for device in devices if device.kind is DeviceKind.CUDA]
    if not gpus:
        return ()
    try:
        with Nvml() as nvml:
            return tuple(
                Busy(
                    device=gpu,
                    pid=process.pid,
                    name=_process_name(process.pid),
                    used_bytes=process.used_bytes,
                    compute=process.compute,
                )
                for gpu in gpus
                for process in nvml.processes(gpu.uuid)
                if process.pid != os.getpid()
            )
    except NvmlError as error:
        raise DeviceError(f"Who uses the GPUs cannot be read: {error}. Nothing was started") from error


def marked(devices: Sequence[Device], found: Sequence[Busy]) -> tuple[Device, ...]:
    """The devices, those that others compute on marked with who does."""
    users = {one.device.uuid: str(one) for one in found if one.compute}
    return tuple(msgspec.structs.replace(device, busy_with=users.get(device.uuid)) for device in devices)


def refusal(devices: Sequence[Device], found: Sequence[Busy]) -> str | None:
    """Why a run on `devices` is not started while `found` use them, and what to do; None where it may start.

    A process that only draws (a display server) does not stand against a run.
    """
    blocking = [one for one in found if one.compute]
    if not blocking:
        return None
    taken = {one.device.uuid for one in blocking}
    rest = [_word(device) for device in devices if device.uuid not in taken]
    leave_out = f"Leave {'it' if len(taken) == 1 else 'them'} out with --gpu-ids {','.join(rest)}, or measure"
    return (
        f"{'; '.join(_users(blocking))}. Nothing was started. {leave_out if rest else 'Measure'} beside it with "
        "--allow-busy (results will be marked contaminated)."
    )


def _users(found: Sequence[Busy]) -> Iterator[str]:
    """A line for each device: its process, or the largest of many."""
    for device in dict.fromkeys(one.device for one in found):
        here = sorted((one for one in found if one.device == device), key=lambda one: one.used_bytes or 0, reverse=True)
        others = f", and by {len(here) - 1} more" if len(here) > 1 else ""
        yield f"{here[0]}{others}"


class _Gpus:
    """The GPUs that may be named, by place; None for one that is there but cannot be opened."""

    def __init__(self, machine: Inventory, visible: str | None, order: str | None, origin: str) -> None:
        if machine.nvml is NvmlStatus.BROKEN:
            raise DeviceError(f"{machine.reason}. Nothing was started. {_TRY_CPU}")
        if machine.nvml is NvmlStatus.ABSENT:
            raise DeviceError(f"No NVIDIA GPU was found: {machine.reason}. {_TRY_CPU}")
        by_index = {gpu.gpu_id: gpu for gpu in machine.gpus}
        everything = [by_index.get(index) for index in range(len(machine.gpus) + len(machine.unreadable))]
        self._machine = machine
        self._visible = visible
        self._origin = origin
        self._list = visible_gpus(everything, visible, order)

    def named(self, word: str) -> tuple[Device, ...]:
        """The GPUs that one word names."""
        if word == "all":
            return self._all()
        return (self._by_uuid(word) if word.startswith("GPU-") else self._at(int(word)),)

    def _all(self) -> tuple[Device, ...]:
        if not self._list:
            where = "" if self._visible is None else f" (CUDA_VISIBLE_DEVICES is {self._visible!r})"
            raise DeviceError(f"No NVIDIA GPU was found{where}. {_TRY_CPU}")
        return tuple(self._at(place) for place in range(len(self._list)))

    def _at(self, place: int) -> Device:
        if place >= len(self._list):
            raise DeviceError(f"{self._origin}: there is no GPU {place}; there are {self._places}")
        gpu = self._list[place]
        if gpu is None:
            usable = ",".join(str(other) for other, found in enumerate(self._list) if found)
            advice = f"Leave it out with --gpu-ids {usable}" if usable else _TRY_CPU
            raise DeviceError(f"{self._machine.reason}. Nothing was started. {advice}")
        return msgspec.structs.replace(gpu, gpu_id=place)

    def _by_uuid(self, word: str) -> Device:
        places = [place for place, gpu in enumerate(self._list) if gpu and gpu.uuid.startswith(word)]
        if len(places) > 1:
            matches = ", ".join(gpu.uuid for gpu in self._list if gpu and gpu.uuid.startswith(word))
            raise DeviceError(f"{self._origin}: {word} is the beginning of several UUIDs: {matches}. Give more of it")
        if places:
            return self._at(places[0])
        if any(gpu.uuid.startswith(word) for gpu in self._machine.gpus):
            raise DeviceError(f"{self._origin}: {word} is hidden by CUDA_VISIBLE_DEVICES={self._visible}")
        raise DeviceError(f"{self._origin}: no GPU has the UUID {word}. `torch-gpu-benchmark info` shows them all")

    @property
    def _places(self) -> str:
        """The indices there are, in words."""
        within = "" if self._visible is None else f" within CUDA_VISIBLE_DEVICES={self._visible}"
        last = len(self._list) - 1
        return ("none" if last < 0 else "only 0" if last == 0 else f"0 to {last}") + within


def _cpu_number(word: str, origin: str) -> int | None:
    """N of cpu:N, None for the name of a GPU. Raises DeviceError for a word that can be neither."""
    if not _WORD.fullmatch(word):
        raise DeviceError(f"{origin}: {word!r} is no device. Give all, or a list of indices, UUIDs (GPU-…) and cpu:0")
    return int(word.removeprefix("cpu:")) if word.startswith("cpu:") else None


def _word(device: Device) -> str:
    """How --gpu-ids names a device."""
    return device.uuid if device.kind is DeviceKind.CPU else str(device.gpu_id)


def _require_distinct(devices: Sequence[Device], origin: str) -> None:
    seen: set[str] = set()
    for device in devices:
        if device.uuid in seen:
            name = device.label if device.label == device.uuid else f"{device.label} ({device.uuid})"
            raise DeviceError(f"{origin}: {name} is named twice. Name each device once")
        seen.add(device.uuid)


def _process_name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None
