"""Xids (error numbers of the driver) in the kernel's log. It also has those of lost GPUs, and others that NVML lacks.

    NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python3, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:1b:00 GPU-I:05 GPU-CI:00): 13, pid=4711, …        of one GPU instance, in MIG mode

Only new records are read. The log is readable for root, and for all users where kernel.dmesg_restrict is 0.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from orchestrator.gpu.health.node import kernel_name
from orchestrator.gpu.mig import Occupants

KMSG: Final = Path("/dev/kmsg")
_KMSG_DEVICE: Final = os.makedev(1, 11)
MOST_RECORDS: Final = 1000  # at one tick
_RECORD_BYTES: Final = 8192
"""The kernel returns one record for each read, and refuses a smaller buffer."""
_XID: Final = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)(?: GPU-I:(\d+))?(?: GPU-CI:\d+)?\): (\d+)")


class KernelLog:
    """Reads Xids from the kernel's log, from the creation of this object on.

    slots: PCI address of a GPU → devices of the run on this GPU. gap: why records were missed, or "".
    """

    def __init__(self, slots: Mapping[str, Occupants], path: Path = KMSG) -> None:
        self._slots = {_slot(kernel_name(address)): there for address, there in slots.items()}
        self._fd = _opened(path)
        self.gap = ""

    @property
    def readable(self) -> bool:
        """Whether the log can be read. False for ever after an error."""
        return self._fd is not None

    def heard(self) -> Iterator[tuple[str, int]]:
        """Yield (UUID, Xid) for each Xid in the next MOST_RECORDS records and each device it affects. Never waits."""
        for record in self._records():
            for match in _XID.finditer(record):
                there = self._slots.get(_slot(match.group(1).decode().lower()))
                if there is not None:
                    instance = None if match.group(2) is None else int(match.group(2))
                    yield from ((uuid, int(match.group(3))) for uuid in there.concerned(instance))

    def close(self) -> None:
        """Close the log."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _records(self) -> Iterator[bytes]:
        for _ in range(MOST_RECORDS):
            if self._fd is None:
                return
            try:
                record = os.read(self._fd, _RECORD_BYTES)
            except BrokenPipeError:
                self.gap = "records were overwritten before they were read"
                continue
            except BlockingIOError:
                return
            except OSError:
                self.close()  # from here on it is not readable
                return
            if not record:
                return
            yield record


def _opened(path: Path) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # restricted, or hidden from this container
    status = os.fstat(fd)
    # In a container it may be /dev/null or the console.
    if not stat.S_ISREG(status.st_mode) and status.st_rdev != _KMSG_DEVICE:
        os.close(fd)
        return None
    os.lseek(fd, 0, os.SEEK_END)
    return fd


def _slot(address: str) -> str:
    return address.partition(".")[0]  # without the function, which the driver omits
