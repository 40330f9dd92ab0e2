"""Foreign processes on the GPUs of a run.

    telemetry process: Lookout.look ── ForeignSeen, when it changes ──▶ orchestrator: ForeignUse.during, .here

A process is ours when the orchestrator is among its ancestors. Not reported: one that only draws (a display server),
and a PID without an entry in /proc, which may be ours by another number. Foreign processes never get a signal.
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import NvmlError
from orchestrator.system import host
from protocol.messages import ForeignProcess, ForeignSeen

LOOK_NS: Final = 500_000_000
"""How often it is looked; a process that comes and goes in between is not seen."""
_GENERATIONS: Final = 64
"""Ancestors that are looked at: a chain in which a PID was used again could otherwise be followed for ever."""


def is_ours(pid: int, orchestrator: int) -> bool | None:
    """Whether a process is the orchestrator or comes from it; None for one that /proc does not show."""
    link: int | None = pid
    for _ in range(_GENERATIONS):
        if link == orchestrator:
            return True
        parent = None if link is None else host.parent(link)
        if parent is None:
            return None if link == pid else False
        if parent == 0:
            return False
        link = parent
    return False


class Lookout:
    """Looks who computes on some GPUs. orchestrator: the PID whose processes are ours."""

    def __init__(self, nvml: Nvml, orchestrator: int) -> None:
        self._nvml = nvml
        self._orchestrator = orchestrator
        self._seen: dict[str, tuple[ForeignProcess, ...]] = {}

    def look(self, uuid: str, at_ns: int) -> ForeignSeen | None:
        """Who is on the GPU now, None where nobody came or left, or NVML does not tell."""
        try:
            found = self._nvml.processes(uuid)
        except NvmlError:
            return None
        if found is None:
            return None
        foreign = tuple(
            ForeignProcess(pid=one.pid, name=host.process_name(one.pid), used_bytes=one.used_bytes)
            for one in found
            if one.compute and is_ours(one.pid, self._orchestrator) is False
        )
        before, self._seen[uuid] = self._seen.get(uuid, ()), foreign
        same = [one.pid for one in before] == [one.pid for one in foreign]
        return None if same else ForeignSeen(uuid=uuid, processes=foreign, at_ns=at_ns)


class ForeignUse:
    """What the telemetry process has said of them, in words for people."""

    def __init__(self) -> None:
        self._here: dict[str, str] = {}
        self._last: dict[str, tuple[int, str]] = {}

    def heard(self, message: ForeignSeen) -> None:
        """The processes on a GPU are others than before."""
        self.note(message.uuid, words(message.processes), message.at_ns)

    def note(self, uuid: str, by: str, at_ns: int) -> None:
        """From then on `by` computes on a GPU, in words; empty for nobody."""
        if left := self._here.pop(uuid, ""):
            self._last[uuid] = (at_ns, left)
        if by:
            self._here[uuid] = by

    def unseen(self, at_ns: int) -> None:
        """From then on nobody tells who is where. Who was there last was there until then, and is not waited for."""
        for uuid in tuple(self._here):
            self.note(uuid, "", at_ns)

    def here(self, uuid: str) -> str:
        """Who computes on a GPU now; empty for nobody."""
        return self._here.get(uuid, "")

    def during(self, uuid: str, since_ns: int) -> str:
        """Who computed on a GPU at any time since then; empty for nobody."""
        left_ns, words = self._last.get(uuid, (0, ""))
        return self.here(uuid) or (words if left_ns >= since_ns else "")

    def beside(self, uuids: Iterable[str], since_ns: int) -> str:
        """Who computed on any of the GPUs of a launch at any time since then; empty for nobody."""
        return next(filter(None, (self.during(uuid, since_ns) for uuid in uuids)), "")


def words(processes: tuple[ForeignProcess, ...]) -> str:
    """The largest, and how many more; empty for none."""
    if not processes:
        return ""
    first = max(processes, key=lambda one: one.used_bytes or 0)
    memory = "" if first.used_bytes is None else f", {first.used_bytes / 2**30:.1f} GiB"
    more = f", and {len(processes) - 1} more" if len(processes) > 1 else ""
    return f"PID {first.pid}{f' {first.name}' if first.name else ''}{memory}{more}"
