"""The health records of the telemetry process: one frame a record in telemetry/health.records, in order of time.

Watch        it starts: the boot, and the GPUs of which it can hear Xid events
Deafened     it can no longer hear them, or may have missed some
Vitals       one GPU at the beginning, every ten seconds, and at the end
XidSeen      an error of the driver, as soon as it is heard
NodeVitals   the error counters of the machine, as often as those of the GPUs
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
"""Between two looks at a GPU."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """at_ns is monotonic."""

    at_ns: int


class Watch(_Record, frozen=True, kw_only=True):
    """A telemetry process starts. deaf: UUID → why NVML gives no Xids of that GPU.

    kernel_log: whether the kernel's log is read. unlogged: UUID → why not for that GPU.
    """

    boot_id: str
    deaf: dict[str, str] = {}
    kernel_log: bool = False
    unlogged: dict[str, str] = {}


class Deafened(_Record, frozen=True, kw_only=True):
    """From now on NVML may give no Xids of some GPUs: UUID → reason. Other fields as in Watch."""

    deaf: dict[str, str]
    kernel_log: bool = True
    unlogged: dict[str, str] = {}


class Vitals(_Record, frozen=True, kw_only=True):
    """One look at one GPU. values: by the names of reader.py; refusals: reasons for unread ones.

    broken: NVML's reason for a GPU that is gone or must be reset, else empty. damaged: its InfoROM is damaged.
    """

    uuid: str
    values: dict[str, int]
    refusals: dict[str, str] = {}
    broken: str = ""
    damaged: str = ""


class NodeVitals(_Record, frozen=True, kw_only=True):
    """One look at the error counters of the machine, by the names of node.py."""

    values: dict[str, int]
    refusals: dict[str, str] = {}


HealthRecord = Watch | Deafened | Vitals | XidSeen | NodeVitals
_RECORD: Final = codec.Decoder[HealthRecord](HealthRecord)


def read(path: Path) -> Iterator[HealthRecord]:
    """Yield the sound records in a file; none without a file. Raises RunFolderError for a file that is not ours."""
    for _, body in frames(contents(path)):
        try:
            yield _RECORD.decode(body)
        except ProtocolError:
            continue  # damaged: a gap in the readings, like any other
