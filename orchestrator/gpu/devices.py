"""Resolve --gpu-ids to the devices of a run, before anything starts.

GPUs are found with NVML alone (inventory.py): a CUDA context in the parent would take memory on every GPU.

    all              every GPU in CUDA_VISIBLE_DEVICES, or of the machine if that is unset. MIG mode: the GPU's slices
    0,1,2            indices in CUDA_VISIBLE_DEVICES, or those of nvidia-smi if that is unset
    GPU-5317350e…    a UUID or its first characters; MIG-… for a slice
    cpu:0,cpu:1      parts of the cores
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.errors import DeviceError
from orchestrator.gpu import inventory, mig
from orchestrator.gpu.cpu_devices import cpu_devices, share_near_cores, usable_cores
from orchestrator.gpu.inventory import Inventory, Look, NvmlStatus
from orchestrator.gpu.nvml import is_slice
from orchestrator.gpu.visible_devices import visible_gpus
from protocol.cell import Device

_TRY_CPU: Final = "To try gpubench on the CPU, use --gpu-ids cpu:0,cpu:1"
_OTHER_NAMES: Final = re.compile(r"(cuda|gpu|cpu)[: ]?([0-9]{1,6})?", re.IGNORECASE)
_WORD: Final = re.compile(r"all|[0-9]{1,6}|(GPU|MIG)-[0-9A-Za-z-]*|cpu:[0-9]{1,6}")


def on_this_machine(gpu_ids: str, look: Look, origin: str = "--gpu-ids") -> tuple[Device, ...]:
    """Return the devices of this machine that `gpu_ids` names, in that order.

    look: reads NVML, called only if a GPU is named. origin: name of the option or variable with `gpu_ids`, for error
    messages. Raises DeviceError if a device is unknown, unusable or named twice.
    """
    visible, order = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER")
    return resolve(gpu_ids, visible=visible, order=order, cores=usable_cores(), origin=origin, look=look)


def resolve(
    gpu_ids: str,
    *,
    visible: str | None,
    cores: tuple[int, ...],
    order: str | None = None,
    origin: str = "--gpu-ids",
    look: Look = inventory.look,
) -> tuple[Device, ...]:
    """Return the devices that `gpu_ids` names, in that order. A GPU's `gpu_id` is its index in CUDA_VISIBLE_DEVICES.

    gpu_ids: as in the module's docstring. visible, order: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, None if unset.
    cores: usable cores of the CPU. origin: name of the option or variable with `gpu_ids`, for errors. look: reads NVML,
    called only if a GPU is named. Raises DeviceError if a device is unknown, unusable or named twice.
    """
    words = require_words(gpu_ids, origin)
    numbers = [int(word.removeprefix("cpu:")) if word.startswith("cpu:") else None for word in words]
    gpus = _Gpus(look().inventory, visible, order, origin) if None in numbers else None
    slices = iter(cpu_devices([number for number in numbers if number is not None], cores))
    chosen: list[Device] = []
    for word, number in zip(words, numbers, strict=True):
        if number is not None:
            chosen.append(next(slices))
        elif gpus is not None:
            chosen += gpus.of_word(word)
    _require_distinct(chosen, origin)
    return mig.sharing(share_near_cores(chosen, cores))


def require_words(gpu_ids: str, origin: str) -> list[str]:
    """Split `gpu_ids` at commas into words.

    origin: name of the option or variable with `gpu_ids`, for error messages. Raises DeviceError for a word that cannot
    name a device ("gpu", "").
    """
    words = [word.strip() for word in gpu_ids.split(",")]
    if not all(words):
        raise DeviceError(f"{origin}: {gpu_ids!r}: a device is missing between commas. Use all, or a list like 0,1")
    for word in words:
        if not _WORD.fullmatch(word):
            raise DeviceError(f"{origin}: {word!r} is no device. {_meant(word)}")
    return words


def _meant(word: str) -> str:
    """Return advice for a wrong word: "Did you mean 0?" for cuda:0 and GPU0. For others, list all valid forms."""
    found = _OTHER_NAMES.fullmatch(word)
    if found is None:
        return "Use all, or a list of GPU indices, UUIDs (GPU-…, MIG-…) and CPU devices (cpu:0)"
    kind, number = found.groups(default="0")
    return f"Did you mean {'cpu:' if kind.lower() == 'cpu' else ''}{number}?"


class _Gpus:
    """GPUs and slices that --gpu-ids can name: by UUID, or by index in `_list`, where None is an unreadable GPU."""

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
        named = visible_gpus(everything, visible, order, machine.slices)
        # A slice in CUDA_VISIBLE_DEVICES is numbered by its index there.
        self._list = [device and replace(device, gpu_id=place, slice_index=None) for place, device in enumerate(named)]
        self._slices = {
            gpu.uuid: tuple(replace(part, gpu_id=gpu.gpu_id) for part in machine.slices if part.slice_of == gpu.uuid)
            for gpu in self._list
            if gpu is not None
        }
        self._all_slices = tuple(part for slices in self._slices.values() for part in slices)

    def of_word(self, word: str) -> tuple[Device, ...]:
        """Return the devices that `word` names: an index, a UUID or its first characters, or "all".

        "all" names every visible GPU or, if that is in MIG mode, its slices. Raises DeviceError if a device is unknown
        or unusable, or if "all" finds no GPU. A GPU in MIG mode is unusable if `word` names the GPU itself.
        """
        if word != "all":
            return (self._at(int(word)) if word.isdecimal() else self._by_uuid(word),)
        if not self._list:
            where = "" if self._visible is None else f" (CUDA_VISIBLE_DEVICES is {self._visible!r})"
            raise DeviceError(f"No NVIDIA GPU was found{where}. {_TRY_CPU}")
        parts = [(gpu and self._slices[gpu.uuid]) or (self._at(place),) for place, gpu in enumerate(self._list)]
        return tuple(device for devices in parts for device in devices)

    def _at(self, place: int) -> Device:
        if place >= len(self._list):
            raise DeviceError(f"{self._origin}: there is no GPU {place}. Available: {self._places}")
        gpu = self._list[place]
        if gpu is None:
            raise DeviceError(f"{self._machine.reason}. Nothing was started. {self._advice()}")
        return self._usable(gpu)

    def _usable(self, device: Device) -> Device:
        if not device.mig_enabled or device.slice_of is not None:
            return device
        slices = self._slices[device.uuid]
        whole = f"{self._origin}: {device.label} ({device.uuid}) is in MIG mode, so CUDA sees only its slices"
        if slices:
            raise DeviceError(f"{whole}. Name slices ({mig.listed(slices)}) or use all")
        raise DeviceError(
            f"{whole}, and there is no usable one. Create slices (nvidia-smi mig -cgi … -C, as root), or turn MIG off "
            f"(nvidia-smi -i {device.uuid} -mig 0). {self._advice()}"
        )

    def _by_uuid(self, word: str) -> Device:
        own = [gpu for gpu in self._list if gpu is not None]
        visible = {device.uuid: device for device in (*self._all_slices, *own)}
        matches = [device for uuid, device in visible.items() if uuid.startswith(word)]
        if len(matches) > 1:
            uuids = ", ".join(device.uuid for device in matches)
            raise DeviceError(f"{self._origin}: several UUIDs begin with {word}: {uuids}. Give more characters")
        if matches:
            return self._usable(matches[0])
        if any(device.uuid.startswith(word) for device in (*self._machine.gpus, *self._machine.slices)):
            raise DeviceError(f"{self._origin}: {word} is hidden by CUDA_VISIBLE_DEVICES={self._visible}")
        what = "no slice" if is_slice(word) else "no GPU"
        raise DeviceError(
            f"{self._origin}: {what} has the UUID {word}{self._slices_there}. `gpubench-orchestrate info` shows all"
        )

    def _advice(self) -> str:
        usable = [
            device.uuid if device.slice_of else str(device.gpu_id)
            for gpu in self._list
            if gpu is not None
            for device in (self._slices[gpu.uuid] or ([] if gpu.mig_enabled and gpu.slice_of is None else [gpu]))
        ]
        return f"Exclude it with --gpu-ids {','.join(usable)}" if usable else _TRY_CPU

    @property
    def _places(self) -> str:
        within = "" if self._visible is None else f" within CUDA_VISIBLE_DEVICES={self._visible}"
        last = len(self._list) - 1
        return ("none" if last < 0 else "only 0" if last == 0 else f"0 to {last}") + within + self._slices_there

    @property
    def _slices_there(self) -> str:
        return f"; slices are {mig.listed(self._all_slices)}" if self._all_slices else ""


def _require_distinct(devices: Sequence[Device], origin: str) -> None:
    seen: set[str] = set()
    for device in devices:
        if device.uuid in seen:
            name = device.label if device.label == device.uuid else f"{device.label} ({device.uuid})"
            raise DeviceError(f"{origin}: {name} is given twice. Give each device once")
        seen.add(device.uuid)
