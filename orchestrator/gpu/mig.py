"""MIG slices: parts of a GPU that are devices of their own to CUDA, which then shows no whole GPU any more.

    GPU 0 (MIG on) ── slices() ──▶ GPU 0:0 MIG-…, GPU 0:1 MIG-…      one process of CUDA sees one of them

A slice has units of computing, memory and processes of its own; power, temperature, clocks and errors are the GPU's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from orchestrator.gpu.nvml import Nvml, is_slice
from orchestrator.gpu.nvml_errors import NO_PERMISSION, NOT_FOUND, NvmlError
from protocol.cell import Device

_NOT_OURS: Final = frozenset({NOT_FOUND, NO_PERMISSION})
"""What NVML says of a place without a slice, and of a slice that this container was not given."""


def slices(nvml: Nvml, gpu: Device) -> tuple[Device, ...]:
    """The slices of a GPU as NVML numbers them, none of one that has MIG switched off. Raises NvmlError."""
    if not gpu.mig_enabled:
        return ()
    most = nvml.ask(gpu.uuid, lambda lib, handle: int(lib.nvmlDeviceGetMaxMigDeviceCount(handle)))
    found = (_slice(nvml, gpu, place) for place in range(most))
    return tuple(one for one in found if one is not None)


def listed(devices: Iterable[Device]) -> str:
    """Slices as one names them, and what they are: "MIG-… (GPU 0:1, 1g.18gb)"."""
    return ", ".join(f"{device.uuid} ({device.label}, {profile(device)})" for device in devices)


def profile(device: Device) -> str:
    """What was cut out of the GPU, as NVIDIA names it: "1g.18gb". NVML has it in the name of the slice alone."""
    return device.name.rpartition("MIG ")[2]


def sharing(devices: Sequence[Device]) -> tuple[Device, ...]:
    """The devices of a run, slices marked that have a neighbour of the same GPU in it."""
    gpus = [device.slice_of for device in devices if device.slice_of is not None]
    return tuple(
        msgspec.structs.replace(device, shared_gpu=gpus.count(device.slice_of) > 1) if device.slice_of else device
        for device in devices
    )


@dataclass(frozen=True)
class Occupants:
    """The devices of a run on one GPU: the whole of it, or slices. instances: UUID → GPU instance, None for a whole."""

    instances: Mapping[str, int | None]

    def concerned(self, instance: int | None) -> tuple[str, ...]:
        """The UUIDs that an error in an instance is about; all of them where it is the GPU's (None)."""
        return tuple(uuid for uuid, own in self.instances.items() if instance is None or own in {None, instance})


def occupants(nvml: Nvml, uuids: Iterable[str]) -> Occupants:
    """Where devices of one GPU sit in it. A slice that does not tell is concerned by whatever happens to the GPU."""
    return Occupants({uuid: _instance(nvml, uuid) if is_slice(uuid) else None for uuid in uuids})


def _instance(nvml: Nvml, uuid: str) -> int | None:
    try:
        return nvml.ask_slice(uuid, lambda lib, handle: int(lib.nvmlDeviceGetGpuInstanceId(handle)))
    except NvmlError:
        return None


def _slice(nvml: Nvml, gpu: Device, place: int) -> Device | None:
    """The slice at a place within its GPU, None where there is none."""

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
