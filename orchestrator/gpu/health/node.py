"""Error counters that need no root: of the GPUs' PCIe slots (AER), and of the machine's memory (EDAC)."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from orchestrator.gpu.health.records import NodeVitals
from orchestrator.system import host

SYSFS: Final = Path("/sys")
_AER: Final = {
    "aer_correctable": "aer_dev_correctable",
    "aer_nonfatal": "aer_dev_nonfatal",
    "aer_fatal": "aer_dev_fatal",
}
_EDAC: Final = {"memory_corrected": "ce_count", "memory_uncorrected": "ue_count"}
_TOTAL: Final = re.compile(r"^TOTAL_ERR_\w+ (\d+)$", re.MULTILINE)


def look(pci_addresses: Iterable[str], elsewhere: int = 0, sysfs: Path = SYSFS) -> NodeVitals:
    """Read the counters, summed over GPUs and memory controllers. Missing and partial ones are in `refusals`.

    elsewhere: number of further GPUs, without a known address.
    """
    values: dict[str, int] = {}
    refusals: dict[str, str] = {}
    slots = [sysfs / "bus/pci/devices" / kernel_name(address) for address in pci_addresses]
    for name, file in _AER.items():
        known = [int(found[1]) for slot in slots if (found := _TOTAL.search(host.text(slot / file)))]
        if known:
            values[name] = sum(known)
        if left_out := len(slots) + elsewhere - len(known):
            of_them = f"{left_out} of these GPUs" if known else "these GPUs"
            refusals[name] = f"the kernel does not count PCIe errors of {of_them}, or nobody knows where they are"
    controllers = sorted((sysfs / "devices/system/edac/mc").glob("mc[0-9]*"))
    for name, file in _EDAC.items():
        known = [count for controller in controllers if (count := host.number(controller / file)) is not None]
        if known:
            values[name] = sum(known)
        else:
            refusals[name] = "the kernel has no driver for this memory controller (EDAC)"
    return NodeVitals(at_ns=time.monotonic_ns(), values=values, refusals=refusals)


def kernel_name(pci_address: str) -> str:
    """NVML's "00000000:1B:00.0" as the kernel writes it: "0000:1b:00.0". Domains may have more than four digits."""
    domain, _, rest = pci_address.lower().partition(":")
    return f"{domain.lstrip('0').zfill(4)}:{rest}"
