"""CPU devices: parts of the usable cores, with which a user tries gpubench on a machine without a GPU."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from orchestrator.system import host
from protocol.cell import Device, DeviceKind

_CPUINFO: Final = Path("/proc/cpuinfo")
_TOPOLOGY: Final = "/sys/devices/system/cpu/cpu{}/topology/{}"


def usable_cores() -> tuple[int, ...]:
    """Return the numbers of the logical cores that this process may use, sorted by socket, then by physical core."""
    return tuple(sorted(os.sched_getaffinity(0), key=_place))


def cpu_devices(numbers: Sequence[int], cores: Sequence[int]) -> tuple[Device, ...]:
    """Return the device cpu:N for each N in `numbers`, with an equal number of adjacent `cores` for each.

    cores: numbers of logical cores, at least one. Cores that remain are unused. With fewer cores than devices, devices
    share cores.
    """
    size = max(1, len(cores) // max(1, len(numbers)))
    name, memory = _cpu_name(), psutil.virtual_memory()
    slices = [_slice(cores, place, size) for place in range(len(numbers))]
    return tuple(
        Device(
            uuid=f"cpu:{number}",
            gpu_id=number,
            kind=DeviceKind.CPU,
            name=name,
            cpus=tuple(sorted(own)),
            shared_cores=slices.count(own) > 1,
            memory_total_bytes=memory.total,
            memory_used_bytes=memory.total - memory.available,
        )
        for number, own in zip(numbers, slices, strict=True)
    )


def share_near_cores(devices: Sequence[Device], cores: Sequence[int]) -> tuple[Device, ...]:
    """Return the devices with a new `cpus` for each GPU: the cores to which its workers are bound.

    Before the call, `cpus` lists the cores near the GPU. Of these, the usable ones (in `cores`) are divided among the
    GPUs that are near the same usable cores. If none is usable, `cpus` becomes (), and workers are not bound. CPU
    devices stay as they are.
    """
    siblings: dict[tuple[int, ...], list[str]] = {}
    for device in devices:
        if device.kind is DeviceKind.CUDA:
            near = tuple(core for core in cores if core in device.cpus)
            siblings.setdefault(near, []).append(device.uuid)
    own = {
        uuid: tuple(sorted(_slice(shared, place, max(1, len(shared) // len(uuids))))) if shared else ()
        for shared, uuids in siblings.items()
        for place, uuid in enumerate(uuids)
    }
    return tuple(msgspec.structs.replace(device, cpus=own.get(device.uuid, device.cpus)) for device in devices)


def _cpu_name() -> str:
    for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.machine()


def _slice(cores: Sequence[int], place: int, size: int) -> tuple[int, ...]:
    begin = place * size % len(cores)
    return tuple(cores[begin : begin + size])


def _place(core: int) -> tuple[int, int, int]:
    return _topology(core, "physical_package_id"), _topology(core, "core_id"), core


def _topology(core: int, what: str) -> int:
    number = host.number(Path(_TOPOLOGY.format(core, what)))
    return core if number is None else number
