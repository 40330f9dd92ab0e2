"""Foreign processes on a GPU: told apart from our own, and reported when they change."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.gpu.nvml import GpuProcess, Nvml
from orchestrator.gpu.nvml_errors import GpuLostError
from orchestrator.gpu.telemetry.foreign_use import ForeignUse, Lookout, is_ours
from protocol.messages import ForeignProcess, ForeignSeen


class Answers(Nvml):
    """An NVML that answers who is on the GPUs, and nothing else."""

    def __init__(self, *pids: int) -> None:
        self.found: tuple[GpuProcess, ...] = tuple(GpuProcess(pid=pid, used_bytes=1, compute=True) for pid in pids)
        self.lost = self.silent = False

    def processes(self, uuid: str) -> tuple[GpuProcess, ...] | None:
        """As it was told to answer."""
        if self.lost:
            raise GpuLostError("gone", 15)
        return None if self.silent else self.found


@contextmanager
def grandchild() -> Iterator[int]:
    """PID of a process whose parent is a child of this one."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
        pid = int(shell.stdout.readline())
        try:
            yield pid
        finally:
            os.kill(pid, 9)


def test_descendants_are_ours() -> None:
    """The orchestrator and its descendants; not its own parent. An invisible PID may be ours by another number."""
    with grandchild() as pid:
        assert is_ours(pid, os.getpid()) is True
        assert is_ours(pid, pid) is True
        assert is_ours(os.getpid(), pid) is False
    assert is_ours(os.getppid(), os.getpid()) is False
    assert is_ours(2**22 + 1, os.getpid()) is None
    assert Lookout(Answers(2**22 + 1), os.getpid()).look("GPU-0", 1) is None


def test_only_changes_are_reported() -> None:
    """Arrivals and departures, each once, with the kernel's name of the process; never our own processes."""
    nvml = Answers(os.getpid())
    lookout = Lookout(nvml, os.getpid())
    assert lookout.look("GPU-0", 1) is None
    nvml.found = Answers(os.getpid(), os.getppid()).found
    seen = lookout.look("GPU-0", 2)
    assert [one.pid for one in seen.processes] == [os.getppid()]
    assert seen.processes[0].name
    assert lookout.look("GPU-0", 3) is None
    nvml.found = ()
    assert lookout.look("GPU-0", 4) == ForeignSeen(uuid="GPU-0", processes=(), at_ns=4)


def test_graphics_and_lost_gpus_change_nothing() -> None:
    """A process that only draws is not reported; a GPU that does not answer changes nothing."""
    nvml = Answers(os.getppid())
    lookout = Lookout(nvml, os.getpid())
    assert lookout.look("GPU-0", 1) is not None
    nvml.lost = True
    assert lookout.look("GPU-0", 2) is None
    nvml.lost, nvml.silent = False, True
    assert lookout.look("GPU-0", 2) is None
    nvml.silent, nvml.found = False, (GpuProcess(pid=os.getppid(), used_bytes=1, compute=False),)
    assert lookout.look("GPU-0", 3) == ForeignSeen(uuid="GPU-0", processes=(), at_ns=3)


def test_foreign_use_during_a_time() -> None:
    """Processes that are there, or that left after that moment, the largest first."""
    use = ForeignUse()
    large = ForeignProcess(pid=7, name="python3", used_bytes=3 * 2**30)
    use.heard(ForeignSeen(uuid="GPU-0", processes=(ForeignProcess(pid=6, name=None, used_bytes=None), large), at_ns=10))
    words = "PID 7 python3, 3.0 GiB, and 1 more"
    assert use.here("GPU-0") == use.during("GPU-0", 99) == words
    assert use.during("GPU-1", 0) == ""
    use.heard(ForeignSeen(uuid="GPU-0", processes=(), at_ns=20))
    assert (use.here("GPU-0"), use.during("GPU-0", 20), use.during("GPU-0", 21)) == ("", words, "")


def test_foreign_use_ends_with_telemetry() -> None:
    """What began before telemetry died was contaminated; later launches do not wait for the process."""
    use = ForeignUse()
    use.note("GPU-0", "PID 7", 10)
    use.unseen(30)
    assert (use.here("GPU-0"), use.during("GPU-0", 20), use.during("GPU-0", 31)) == ("", "PID 7", "")
