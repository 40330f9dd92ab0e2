"""The health watch in the telemetry process: values every ten seconds, errors as they occur. It never waits."""

import contextlib
import ctypes
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from orchestrator.gpu import mig
from orchestrator.gpu.health import node, xids
from orchestrator.gpu.health.course import Course
from orchestrator.gpu.health.kernel_log import KMSG, KernelLog
from orchestrator.gpu.health.reader import refused, vitals
from orchestrator.gpu.health.records import LOOK_NS, Deafened, HealthRecord, Watch
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import TIMEOUT, NvmlError
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.system import host
from protocol import codec
from protocol.messages import GpuBroken, XidSeen

MOST_EVENTS: Final = 100  # at one tick: a dying GPU may report thousands
MOST_KEPT: Final = 1000
"""Most Xids of one GPU and kind that a telemetry process records. New numbers of hardware faults have no limit."""
_OFTEN_NS: Final = 1_000_000_000
_NO_INSTANCE: Final = 0xFFFFFFFF  # an error of the whole GPU
_SAME_NS: Final = 5_000_000_000  # equal errors from NVML and the kernel's log within it are one


class HealthWatch:
    """Writes health records of GPUs and the machine to the file `path`. Raises OSError if it cannot be opened."""

    def __init__(self, nvml: Nvml, uuids: Iterable[str], path: Path, kernel_log: Path = KMSG) -> None:
        self._nvml = nvml
        self._uuids = tuple(uuids)
        self._file = FrameFile(path)
        self._unlogged: dict[str, str] = {}
        self._slots = self._occupied()
        self._events = _Events(nvml, self._uuids)
        self._kernel_log = KernelLog(self._slots, kernel_log)
        self._by_nvml: dict[tuple[str, int], int] = {}
        self._by_kernel: dict[tuple[str, int], int] = {}
        self._kept: Counter[tuple[str, xids.XidKind]] = Counter()
        self._reported: set[tuple[str, int]] = set()
        self._hears = _Hears({}, {}, kernel_log=False)
        self._courses: dict[str, Course] = {}
        self._broken: set[str] = set()
        self._looked: dict[str, int] = {}
        self._next_ns = 0
        self._begun = False

    def tick(self, now_ns: int) -> tuple[XidSeen | GpuBroken, ...]:
        """Write new Xids (driver errors), and every ten seconds all values. Return new Xids and newly broken GPUs.

        now_ns: monotonic. A GPU is broken if it is lost, its InfoROM is damaged, or it had uncorrected memory errors;
        each is returned once, by `tick` or `look_at`. Raises OSError if a write fails.
        """
        if not self._begun:
            self._begun = True
            self._hears = self._hearing()
            self._write(Watch(at_ns=now_ns, boot_id=host.boot_id(), **self._hears._asdict()))
        heard = self._listen()
        if now_ns < self._next_ns:
            return heard
        self._next_ns = now_ns + LOOK_NS
        return (*heard, *self._look())

    def look_at(self, uuid: str) -> tuple[GpuBroken, ...]:
        """Read and write one GPU's values out of turn, unless they were read less than a second ago.

        Return (GpuBroken,) if the GPU is newly broken (see `tick`), else (). Raises OSError if the write fails.
        """
        if time.monotonic_ns() - self._looked.get(uuid, 0) < _OFTEN_NS:
            return ()
        return self._seen(uuid)

    def close(self) -> None:
        """Write new Xids and all values once more, then close the file and the sources of Xids.

        If writing fails, they are closed nevertheless, and OSError is raised.
        """
        try:
            self._listen()
            self._look()
        finally:
            self._events.close()
            self._kernel_log.close()
            self._file.close()

    def _listen(self) -> tuple[XidSeen, ...]:
        """Write and return new Xids. One that NVML and the kernel's log report within 5 s of each other counts once.

        Beyond MOST_KEPT Xids of one GPU and kind, only the first occurrence of each number of a hardware fault is kept.
        """
        now_ns = time.monotonic_ns()
        fresh: list[tuple[str, int]] = []
        for heard, own, others in (
            (self._events.heard(), self._by_nvml, self._by_kernel),
            (list(self._kernel_log.heard()), self._by_kernel, self._by_nvml),
        ):
            fresh += [error for error in heard if now_ns - others.get(error, -_SAME_NS) >= _SAME_NS]
            own.update(dict.fromkeys(heard, now_ns))
        events = tuple(XidSeen(uuid=uuid, xid=xid, at_ns=now_ns) for uuid, xid in fresh if self._keeps(uuid, xid))
        for event in events:
            self._write(event)
        if (hears := self._hearing()) != self._hears:
            self._hears = hears
            self._write(Deafened(at_ns=now_ns, **hears._asdict()))
        return events

    def _hearing(self) -> "_Hears":
        gap = self._kernel_log.gap  # it may have held an error of any GPU
        unlogged = {**dict.fromkeys(self._uuids if gap else (), gap), **self._unlogged}
        return _Hears(dict(self._events.deaf), unlogged, self._kernel_log.readable)

    def _keeps(self, uuid: str, xid: int) -> bool:
        kind = xids.kind(xid)
        if self._kept[uuid, kind] >= MOST_KEPT and (kind not in xids.HARDWARE or (uuid, xid) in self._reported):
            return False
        self._kept[uuid, kind] += 1
        self._reported.add((uuid, xid))
        return True

    def _look(self) -> tuple[GpuBroken, ...]:
        broken = [message for uuid in self._uuids for message in self._seen(uuid)]
        self._write(node.look(self._slots, elsewhere=len(self._unlogged)))
        return tuple(broken)

    def _seen(self, uuid: str) -> tuple[GpuBroken, ...]:
        seen = vitals(self._nvml, uuid)
        self._looked[uuid] = seen.at_ns
        self._write(seen)
        course = self._courses.setdefault(uuid, Course())
        course.take(seen.values, seen.refusals, 0.0)
        reason = seen.broken or seen.damaged
        if not reason and course.uncorrected:
            reason = f"uncorrected memory errors: {course.uncorrected} in this run"
        if not reason or uuid in self._broken:
            return ()
        self._broken.add(uuid)
        return (GpuBroken(uuid=uuid, reason=reason, at_ns=seen.at_ns, lost=bool(seen.broken)),)

    def _occupied(self) -> dict[str, mig.Occupants]:
        found: dict[str, list[str]] = {}
        for uuid in self._uuids:
            found.setdefault(self._slot(uuid), []).append(uuid)
        return {slot: mig.occupants(self._nvml, uuids) for slot, uuids in found.items() if slot}

    def _slot(self, uuid: str) -> str:
        """Return the PCI address of a GPU. If it is unknown, return "" and note the reason in `_unlogged`."""
        try:
            address = self._nvml.ask(uuid, lambda lib, gpu: str(lib.nvmlDeviceGetPciInfo(gpu).busId))
        except NvmlError as error:
            address, why = "", refused(error)
        else:
            why = "NVML returned an empty one"
        if not address:
            self._unlogged[uuid] = f"its PCI address is unknown: {why}"
        return address

    def _write(self, record: HealthRecord) -> None:
        self._file.append(codec.encode(record))


class _Hears(NamedTuple):
    deaf: dict[str, str]
    unlogged: dict[str, str]
    kernel_log: bool


class _Events:
    """NVML's set of error events. deaf: UUID → why events of that GPU cannot be read, or may have been missed."""

    def __init__(self, nvml: Nvml, uuids: Iterable[str]) -> None:
        self._nvml = nvml
        self._by_handle: dict[int, mig.Occupants] = {}
        self.deaf: dict[str, str] = {}
        self._set: Any = None
        try:
            self._set = nvml.call(lambda lib: lib.nvmlEventSetCreate())
        except NvmlError as error:
            self.deaf = dict.fromkeys(uuids, refused(error))
            return
        found: dict[int, list[str]] = {}
        for uuid in uuids:
            try:
                address = nvml.ask(uuid, lambda _lib, gpu: _address(gpu))
                if address not in found:
                    nvml.ask(uuid, self._register)
                found.setdefault(address, []).append(uuid)
            except NvmlError as error:
                self.deaf[uuid] = refused(error)
        self._by_handle = {address: mig.occupants(nvml, there) for address, there in found.items()}

    def heard(self) -> list[tuple[str, int]]:
        """Return (UUID, Xid number) for new Xids, without waiting; those beyond about MOST_EVENTS in the next call."""
        seen: list[tuple[str, int]] = []
        while self._by_handle and len(seen) < MOST_EVENTS:
            try:
                event = self._nvml.call(lambda lib: lib.nvmlEventSetWait_v2(self._set, 0))
            except NvmlError as error:
                if error.code != TIMEOUT:
                    self._deafen(refused(error))
                break
            there = self._by_handle.get(_address(event.device))
            if there is not None:
                instance = None if event.gpuInstanceId == _NO_INSTANCE else int(event.gpuInstanceId)
                seen += [(uuid, int(event.eventData)) for uuid in there.concerned(instance)]
        return seen

    def close(self) -> None:
        if self._set is not None:
            with contextlib.suppress(NvmlError):  # the process ends with it
                self._nvml.call(lambda lib: lib.nvmlEventSetFree(self._set))

    def _deafen(self, why: str) -> None:
        for there in self._by_handle.values():
            self.deaf |= dict.fromkeys((uuid for uuid in there.instances if uuid not in self.deaf), why)

    def _register(self, lib: Any, gpu: Any) -> None:  # noqa: ANN401 - pynvml has no types
        lib.nvmlDeviceRegisterEvents(gpu, lib.nvmlEventTypeXidCriticalError, self._set)


def _address(handle: Any) -> int:  # noqa: ANN401 - a ctypes pointer
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
