"""The chapter of the run's devices: facts (such as memory and driver) that they share, then those that differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from orchestrator.figures.report import GpuInfo, Report
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.report.chapters import health
from orchestrator.report.device_labels import groups, label, labels
from orchestrator.report.numbers import unit
from orchestrator.report.sections import Section, Table, table, texts

_READINGS: Final = "power, temperature, clocks and utilisation of the whole GPU, which its slices share"


def devices(report: Report) -> Section:
    """Return the facts of the devices as a table, after a table of health verdicts if health was judged."""
    judged = report.health.verdict is not HealthVerdict.NOT_APPLICABLE
    tables = (*((health.verdicts(report),) if judged else ()), _facts(report))
    return Section("devices", "Devices and their health" if judged else "Devices", tables=tables)


def described(report: Report) -> Section:
    """Return the facts of every device as lines; of several devices, in a part for each group of identical ones."""
    of_groups = [group.devices for group in groups(report)]
    if len(report.gpu_info) == 1:
        part = Section("gpus", "GPU Information:", tuple(_lines(report.gpu_info)))
    else:
        parts = (
            Section("group", labels(alike) + (", identical:" if len(alike) > 1 else ":"), tuple(_lines(alike)))
            for alike in of_groups
        )
        part = Section("gpus", "GPU Information:", parts=tuple(parts))
    return Section("devices", "", parts=(part,))


def _lines(devices_of: Sequence[GpuInfo]) -> Iterator[str]:
    known = [_facts_of(device) for device in devices_of]
    shared = {name: fact for name, fact in known[0].items() if all(facts[name] == fact for facts in known)}
    yield from (f"{name}: {fact}" for name, fact in shared.items() if fact is not None)
    for device, facts in zip(devices_of, known, strict=True):
        own = [f"{name} {fact}" for name, fact in facts.items() if name not in shared and fact is not None]
        if own:
            yield f"{label(device)}: {', '.join(own)}"


def _facts(report: Report) -> Table:
    known = [_facts_of(device) for device in report.gpu_info]
    values_by_fact = {name: {found[name] for found in known} for name in known[0]}
    names = [name for name, values in values_by_fact.items() if len(values) > 1]
    alike = [
        f"{name} {value}" for name, values in values_by_fact.items() if len(values) == 1 for value in values if value
    ]
    rows = [
        (label(device), *(found[name] or "" for name in names))
        for device, found in zip(report.gpu_info, known, strict=True)
    ]
    if not names:
        of_all = [(name, value) for name, value in known[0].items() if value]
        return table("What is known of each device", texts("What", labels(report.gpu_info)), of_all)
    shared = f"All: {', '.join(alike)}." if alike else ""
    return table("What is known of each device", texts("Id", *names), rows, shared)


def _facts_of(device: GpuInfo) -> Mapping[str, str | None]:
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
        "Quarantined": device.quarantined,
        "Slice of": device.slice_of,
        "Readings": _READINGS if device.slice_of else None,
        "GPU": "shared with another slice of it in this run" if device.shared_gpu else None,
        "Cores": "shared with another CPU device of this run" if device.shared_cores else None,
    }
