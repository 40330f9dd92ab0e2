"""The devices as text. What identical ones share is said once, and what tells them apart for each."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.figures.report import GpuInfo, Report
from orchestrator.report import layout
from orchestrator.report.numbers import unit
from orchestrator.system.plain_text import plain
from protocol.cell import device_label

_READINGS: Final = "power, temperature, clocks and utilisation of the whole GPU, which its slices share"


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


def gpus(report: Report) -> Iterator[str]:
    """Every device of the run, as it was found."""
    yield "GPU Information:"
    for group in groups(report):
        yield from _group(group.devices, heading=len(report.gpu_info) > 1)
    yield ""


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


def _group(devices: Sequence[GpuInfo], *, heading: bool) -> Iterator[str]:
    if heading:
        yield from layout.wrap(labels(devices) + (", identical:" if len(devices) > 1 else ":"), "  ", "  ")
    indent = "    " if heading else "  "
    known = [facts_of(device) for device in devices]
    shared = {name: fact for name, fact in known[0].items() if all(facts[name] == fact for facts in known)}
    for name, fact in shared.items():
        if fact is not None:
            yield from layout.wrap(f"{name}: {fact}", indent, "  ")
    for device, facts in zip(devices, known, strict=True):
        own = [f"{name} {fact}" for name, fact in facts.items() if name not in shared and fact is not None]
        if own:
            yield from layout.wrap(f"{label(device)}: {', '.join(own)}", indent, "  ")


def facts_of(device: GpuInfo) -> Mapping[str, str | None]:
    """What is known of a device, by its name; None where it is not."""
    memory, limit = device.gpu_memory_total_mb, device.power_limit_w
    pcie = f"generation {device.pcie_generation}, {device.pcie_width} lanes" if device.pcie_generation else None
    return {
        "Device": device.gpu_name,
        "Memory": None if memory is None else unit(memory, "MB", digits=0),
        "Driver": device.driver_version,
        "CUDA": device.cuda_version,
        "UUID": device.gpu_uuid if device.kind == "cuda" else None,
        "Serial": device.serial,
        "Part Number": device.part_number,
        "VBIOS": device.vbios_version,
        "PCI Address": device.pci_address,
        "PCIe": pcie,
        "Power Limit": None if limit is None else unit(limit, "W", digits=0),
        "Busy": device.busy_with,
        "Taken out": device.taken_out,
        "Slice of": device.slice_of,
        "Readings": _READINGS if device.slice_of else None,
        "GPU": "shared with another slice of it in this run" if device.shared_gpu else None,
        "Cores": "shared with another CPU device of this run" if device.shared_cores else None,
    }
