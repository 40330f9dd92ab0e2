"""Error counters that every user can read: PCIe errors of the GPUs (AER), and memory errors of the machine (EDAC)."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from orchestrator.gpu.health.records import NOT_COUNTED, NodeVitals
from orchestrator.system import host, safe_read

SYSFS: Final = Path("/sys")
_AER: Final = {
    "aer_correctable": "aer_dev_correctable",
    "aer_nonfatal": "aer_dev_nonfatal",
    "aer_fatal": "aer_dev_fatal",
}
_EDAC: Final = {"memory_corrected": "ce_count", "memory_uncorrected": "ue_count"}
_TOTAL: Final = re.compile(r"^TOTAL_ERR_\w+ (\d+)$", re.MULTILINE)


def look(pci_addresses: Iterable[str], elsewhere: int = 0, sysfs: Path = SYSFS) -> NodeVitals:
    """Read the error counters: AER summed over the GPUs, EDAC summed over the memory controllers.

    pci_addresses: in NVML's form. elsewhere: number of further GPUs, whose PCI address is unknown. `refusals` of the
    result: counter → why it is missing, or lacks some of the GPUs.
    """
    values: dict[str, int] = {}
    refusals: dict[str, str] = {}
    slots = [sysfs / "bus/pci/devices" / kernel_name(address) for address in pci_addresses]
    for name, file in _AER.items():
        counts = [int(match[1]) for slot in slots if (match := _TOTAL.search(host.text(slot / file)))]
        if counts:
            values[name] = sum(counts)
        if missing := len(slots) + elsewhere - len(counts):
            gpus = f"{missing} of these GPUs" if counts else "these GPUs"
            without = not elsewhere and not any(safe_read.is_there(slot / file) for slot in slots)
            unknown = f"the kernel does not count PCIe errors of {gpus}, or their PCI address is unknown"
            refusals[name] = NOT_COUNTED if without else unknown
    controllers = sorted((sysfs / "devices/system/edac/mc").glob("mc[0-9]*"))
    for name, file in _EDAC.items():
        counts = [count for controller in controllers if (count := host.number(controller / file)) is not None]
        if counts:
            values[name] = sum(counts)
        else:
            refusals[name] = "unreadable (EDAC)" if controllers else NOT_COUNTED
    return NodeVitals(at_ns=time.monotonic_ns(), values=values, refusals=refusals)


def kernel_name(pci_address: str) -> str:
    """Convert a PCI address from NVML's form "00000000:1B:00.0" to that of the kernel, "0000:1b:00.0"."""
    domain, _, rest = pci_address.lower().partition(":")
    return f"{domain.lstrip('0').zfill(4)}:{rest}"
