"""What devices of a run are called, and which of them are identical."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.figures.report import GpuInfo, Report
from orchestrator.system.plain_text import plain
from protocol.cell import device_label


class Group(NamedTuple):
    """Identical devices (name, kind, memory), at least one. shown: the one whose values the text gives in full."""

    devices: tuple[GpuInfo, ...]
    shown: GpuInfo

    @property
    def others(self) -> tuple[GpuInfo, ...]:
        """Those that the text tells about in relation to their siblings alone."""
        return tuple(device for device in self.devices if device is not self.shown)


def groups(report: Report) -> tuple[Group, ...]:
    """The devices of the run by what they are. The first is shown, unless another one of its group measured more."""
    measured = Counter(entry.gpu_uuid for entry in report.cells if entry.launches)
    found: dict[tuple[str, str, float | None], list[GpuInfo]] = {}
    for device in report.gpu_info:
        found.setdefault((device.kind, device.gpu_name, device.gpu_memory_total_mb), []).append(device)
    return tuple(
        Group(tuple(devices), max(devices, key=lambda device: measured[device.gpu_uuid])) for devices in found.values()
    )


def label(device: GpuInfo) -> str:
    """How people call the device, in plain characters: a report is read from a file."""
    return plain(device_label(device.kind, device.gpu_uuid, device.gpu_id, device.slice_index))


def label_of(uuid: str, report: Report) -> str:
    """The same by UUID."""
    return next(label(device) for device in report.gpu_info if device.gpu_uuid == uuid)


def labels(devices: Sequence[GpuInfo]) -> str:
    """How people call several devices, at least one: "GPU 0 to GPU 7" where none is left out in between."""
    numbers = [device.gpu_id for device in devices]
    whole = all(device.slice_index is None for device in devices)
    if whole and len(devices) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"{label(devices[0])} to {label(devices[-1])}"
    return ", ".join(label(device) for device in devices)
