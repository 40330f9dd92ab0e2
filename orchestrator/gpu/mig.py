"""MIG slices: parts of a GPU that are devices of their own to CUDA, which then hides the whole GPU.

    GPU 0 (MIG on) ── slices() ──▶ GPU 0:0 MIG-…, GPU 0:1 MIG-…      a CUDA process sees one of them

A slice has its own compute units, memory and processes. Power, temperature, clocks and errors are the GPU's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from orchestrator.gpu.nvml import Nvml, is_slice
from orchestrator.gpu.nvml_errors import NO_PERMISSION, NOT_FOUND, NvmlError
from protocol.cell import Device

_NOT_OURS: Final = frozenset({NOT_FOUND, NO_PERMISSION})
"""NVML's codes for an index without a slice, and for a slice that is not passed to this container."""


def slices(nvml: Nvml, gpu: Device) -> tuple[Device, ...]:
    """Return the slices that this process may use, in NVML's order; () with MIG off. Raises NvmlError if NVML fails."""
    if not gpu.mig_enabled:
        return ()
    most = nvml.ask(gpu.uuid, lambda lib, handle: int(lib.nvmlDeviceGetMaxMigDeviceCount(handle)))
    places = (_slice(nvml, gpu, place) for place in range(most))
    return tuple(device for device in places if device is not None)


def listed(devices: Iterable[Device]) -> str:
    """Return MIG slices as text: "MIG-… (GPU 0:1, 1g.18gb), …". devices: only slices."""
    return ", ".join(f"{device.uuid} ({device.label}, {profile(device)})" for device in devices)


def profile(device: Device) -> str:
    """Return NVIDIA's profile of a slice, such as "1g.18gb". It is a part of the slice's name."""
    return device.name.rpartition("MIG ")[2]


def sharing(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices of a run, with `shared_gpu` set on slices whose GPU has another slice in the run."""
    gpus = [device.slice_of for device in devices]
    return tuple(
        msgspec.structs.replace(device, shared_gpu=gpus.count(device.slice_of) > 1) if device.slice_of else device
        for device in devices
    )


@dataclass(frozen=True)
class Occupants:
    """The devices of a run on one GPU: the GPU itself, or slices.

    instances: UUID → NVML's GPU instance of a slice. None: the device counts as the whole GPU.
    """

    instances: Mapping[str, int | None]

    def concerned(self, instance: int | None) -> tuple[str, ...]:
        """Return the UUIDs of devices that an error affects. instance: GPU instance with the error. None: whole GPU."""
        return tuple(uuid for uuid, own in self.instances.items() if instance is None or own in {None, instance})


def occupants(nvml: Nvml, uuids: Iterable[str]) -> Occupants:
    """Return `uuids`, devices on one GPU, as Occupants. A slice with an unreadable instance counts as the whole GPU."""
    return Occupants({uuid: _instance(nvml, uuid) if is_slice(uuid) else None for uuid in uuids})


def _instance(nvml: Nvml, uuid: str) -> int | None:
    try:
        return nvml.ask_slice(uuid, lambda lib, handle: int(lib.nvmlDeviceGetGpuInstanceId(handle)))
    except NvmlError:
        return None


def _slice(nvml: Nvml, gpu: Device, place: int) -> Device | None:
    def identity(lib: Any, handle: Any) -> tuple[str, str]:  # noqa: ANN401 - pynvml has no types
        own = lib.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
        return lib.nvmlDeviceGetUUID(own), lib.nvmlDeviceGetName(own)

    try:
        uuid, name = nvml.ask(gpu.uuid, identity)
    except NvmlError as error:
        if error.code in _NOT_OURS:
            return None
        raise
    return msgspec.structs.replace(
        gpu,
        uuid=uuid,
        name=name,
        slice_of=gpu.uuid,
        slice_index=place,
        memory_total_bytes=nvml.memory_total(uuid),
        memory_used_bytes=nvml.memory_used(uuid),
    )
