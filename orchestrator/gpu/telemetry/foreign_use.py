"""Foreign processes (no descendants of the orchestrator) on the GPUs of a run.

    telemetry process: Lookout.look ── ForeignSeen, when it changes ──▶ orchestrator: ForeignUse.during, .here

A process that only draws is not reported. Neither is a PID that /proc does not show: in a container, it may be the PID
that one of our processes has on the host.
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import NvmlError
from orchestrator.system import host
from protocol.messages import ForeignProcess, ForeignSeen

LOOK_NS: Final = 500_000_000
_GENERATIONS: Final = 64  # limit of ancestors: reused PIDs could form an endless chain


def is_ours(pid: int, orchestrator: int) -> bool | None:
    """Whether `pid` is `orchestrator` (a PID) or one of its descendants. None if /proc does not show `pid`."""
    link = pid
    for _ in range(_GENERATIONS):
        if link == orchestrator:
            return True
        parent = host.parent(link)
        if parent is None:
            return None if link == pid else False
        link = parent
    return False


class Lookout:
    """Watches for foreign processes on GPUs. orchestrator: PID of the process whose descendants are not foreign."""

    def __init__(self, nvml: Nvml, orchestrator: int) -> None:
        self._nvml = nvml
        self._orchestrator = orchestrator
        self._seen: dict[str, tuple[ForeignProcess, ...]] = {}

    def look(self, uuid: str, at_ns: int) -> ForeignSeen | None:
        """Read the foreign processes on a GPU. at_ns: now, monotonic.

        None if they cannot be read, or have the same PIDs as in the last call for this GPU.
        """
        try:
            processes = self._nvml.processes(uuid)
        except NvmlError:
            return None
        if processes is None:
            return None
        foreign = tuple(
            ForeignProcess(pid=process.pid, name=host.process_name(process.pid), used_bytes=process.used_bytes)
            for process in processes
            if process.compute and is_ours(process.pid, self._orchestrator) is False
        )
        before, self._seen[uuid] = self._seen.get(uuid, ()), foreign
        same = [process.pid for process in before] == [process.pid for process in foreign]
        return None if same else ForeignSeen(uuid=uuid, processes=foreign, at_ns=at_ns)


class ForeignUse:
    """Foreign processes on each GPU, as the telemetry process reported them, in words ("PID 4711 python3, 2.0 GiB")."""

    def __init__(self) -> None:
        self._here: dict[str, str] = {}
        self._last: dict[str, tuple[int, str]] = {}

    def heard(self, message: ForeignSeen) -> None:
        """Note the processes of a message, which replace those noted for its GPU."""
        self.note(message.uuid, describe_processes(message.processes), message.at_ns)

    def note(self, uuid: str, by: str, at_ns: int) -> None:
        """Note which processes compute on a GPU from `at_ns` (monotonic) on. by: in words, "" for none."""
        if left := self._here.pop(uuid, ""):
            self._last[uuid] = (at_ns, left)
        if by:
            self._here[uuid] = by

    def unseen(self, at_ns: int) -> None:
        """Note that telemetry ended at `at_ns` (monotonic): from then on, the processes seen last count as gone."""
        for uuid in tuple(self._here):
            self.note(uuid, "", at_ns)

    def here(self, uuid: str) -> str:
        """Return the foreign processes on a GPU now, in words; "" if there are none."""
        return self._here.get(uuid, "")

    def during(self, uuid: str, since_ns: int) -> str:
        """Return the foreign processes that are on a GPU now, in words, or else those that were there last.

        The latter do not count if they left before `since_ns` (monotonic). Return "" if no process counts.
        """
        left_ns, words = self._last.get(uuid, (0, ""))
        return self.here(uuid) or (words if left_ns >= since_ns else "")

    def beside(self, uuids: Iterable[str], since_ns: int) -> str:
        """Return the first result of `during` for `uuids` (GPUs), in their order, that is not empty; else "".

        since_ns: monotonic, as in `during`.
        """
        return next(filter(None, (self.during(uuid, since_ns) for uuid in uuids)), "")


def describe_processes(processes: tuple[ForeignProcess, ...]) -> str:
    """Return "PID 4711 python3, 2.0 GiB, and 1 more" for the process with the most memory; "" for no processes."""
    if not processes:
        return ""
    first = max(processes, key=lambda process: process.used_bytes or 0)
    memory = "" if first.used_bytes is None else f", {first.used_bytes / 2**30:.1f} GiB"
    more = f", and {len(processes) - 1} more" if len(processes) > 1 else ""
    return f"PID {first.pid}{f' {first.name}' if first.name else ''}{memory}{more}"
