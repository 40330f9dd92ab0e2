"""Labels (names for people) of the devices of a run, and groups of identical devices."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.figures.report import GpuInfo, Report
from orchestrator.system.plain_text import plain
from protocol.cell import device_label


class Group(NamedTuple):
    """Identical devices (same name, kind, memory). shown: the one whose results stand for all in text reports."""

    devices: tuple[GpuInfo, ...]
    shown: GpuInfo

    @property
    def others(self) -> tuple[GpuInfo, ...]:
        """The devices of the group except `shown`."""
        return tuple(device for device in self.devices if device is not self.shown)


def groups(report: Report) -> tuple[Group, ...]:
    """Return the groups of identical devices, in the order of each group's first device in the report.

    Group.shown is the device with the most results, the first of them if several have as many.
    """
    measured = Counter(entry.gpu_uuid for entry in report.cells if entry.launches)
    found: dict[tuple[str, str, float | None], list[GpuInfo]] = {}
    for device in report.gpu_info:
        found.setdefault((device.kind, device.gpu_name, device.gpu_memory_total_mb), []).append(device)
    return tuple(
        Group(tuple(devices), max(devices, key=lambda device: measured[device.gpu_uuid])) for devices in found.values()
    )


def label(device: GpuInfo) -> str:
    """Return the label of a device, in printable characters: "GPU 5", "cpu:1"."""
    return plain(device_label(device.kind, device.gpu_uuid, device.gpu_id, device.slice_index))


def by_uuid(report: Report) -> dict[str, str]:
    """Return UUID → label of each device of the run."""
    return {device.gpu_uuid: label(device) for device in report.gpu_info}


def label_of(uuid: str, report: Report) -> str:
    """Return the label of the device with this UUID. Raises KeyError if the run has no such device."""
    return by_uuid(report)[uuid]


def labels(devices: Sequence[GpuInfo]) -> str:
    """Return the labels in the given order; three or more consecutive ones are shortened: "GPU 0 to GPU 4, GPU 6"."""
    ranges: list[list[GpuInfo]] = []
    for device in devices:
        if ranges and _follows(device, ranges[-1][-1]):
            ranges[-1].append(device)
        else:
            ranges.append([device])
    return ", ".join(map(_range, ranges))


def _follows(device: GpuInfo, other: GpuInfo) -> bool:
    return device.gpu_id == other.gpu_id + 1 and device.slice_index is None and other.slice_index is None


def _range(devices: Sequence[GpuInfo]) -> str:
    if len(devices) > 2:
        return f"{label(devices[0])} to {label(devices[-1])}"
    return ", ".join(map(label, devices))
