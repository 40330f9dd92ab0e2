"""The health records of the telemetry process: one frame for each record in telemetry/health.records, ordered by time.

Watch        the process starts: the boot, and the GPUs whose Xids (driver's error numbers) it cannot read
Deafened     the process can no longer read the Xids of some GPUs, or may have missed some
Vitals       values of one GPU at the start, every ten seconds, after launches, and at the end
XidSeen      an error of the driver, as soon as it is reported
NodeVitals   the error counters of the machine at the start, every ten seconds, and at the end
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.gpu.telemetry.frames import contents, frames
from protocol import codec
from protocol.errors import ProtocolError
from protocol.messages import XidSeen

LOOK_NS: Final = 10_000_000_000
UNSUPPORTED: Final = "not supported by this board or driver"
"""Reason for a missing value that NVML calls unsupported. Whether siblings have it decides what that means."""
NOT_COUNTED: Final = "the kernel of this machine does not count them"
"""Reason for a missing error counter: this machine does not have it."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    at_ns: int


class Watch(_Record, frozen=True, kw_only=True):
    """A telemetry process starts. deaf: UUID → why NVML gives no Xids (error numbers of the driver) of that GPU.

    kernel_log: True if the kernel's log is read. unlogged: UUID → why the log may lack that GPU's Xids.
    """

    boot_id: str
    deaf: dict[str, str] = {}
    kernel_log: bool = False
    unlogged: dict[str, str] = {}


class Deafened(_Record, frozen=True, kw_only=True):
    """The telemetry process can no longer read the Xids of some GPUs, or may have missed some.

    deaf: UUID → why NVML gives no Xids of that GPU. kernel_log: True if the kernel's log is still read. unlogged: UUID
    → why the log may lack that GPU's Xids. The record adds to the earlier ones of this process: a GPU once named stays
    deaf or unlogged.
    """

    deaf: dict[str, str]
    kernel_log: bool = True
    unlogged: dict[str, str] = {}


class Vitals(_Record, frozen=True, kw_only=True):
    """Values of one GPU at one time: name in QUESTIONS of reader.py (with its unit, if any: "power_limit_mw") → value.

    refusals: name → why its value is missing. broken: why the GPU is gone or must be reset; values may then be missing
    without a refusal. damaged: why its InfoROM counts as damaged. Both are NVML's reason as text, "" if all is well.
    """

    uuid: str
    values: dict[str, int]
    refusals: dict[str, str] = {}
    broken: str = ""
    damaged: str = ""


class NodeVitals(_Record, frozen=True, kw_only=True):
    """Error counters of the machine at one time: name in node.py → count.

    refusals: name → why its count is missing, or lacks some of the GPUs. A name may be in both.
    """

    values: dict[str, int]
    refusals: dict[str, str] = {}


HealthRecord = Watch | Deafened | Vitals | XidSeen | NodeVitals
_RECORD: Final = codec.Decoder[HealthRecord](HealthRecord)


def read(path: Path) -> Iterator[HealthRecord]:
    """Yield a file's undamaged records in order; none without the file. Raises RunFolderError if it is unreadable."""
    for _, body in frames(contents(path)):
        try:
            yield _RECORD.decode(body)
        except ProtocolError:
            continue  # damaged: a gap in the readings
