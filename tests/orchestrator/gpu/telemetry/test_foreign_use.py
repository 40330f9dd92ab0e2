"""Who else computes on a GPU: told from our own processes, and said when it changes."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from orchestrator.gpu.nvml import GpuProcess, Nvml
from orchestrator.gpu.nvml_errors import GpuLostError
from orchestrator.gpu.telemetry import validity
from orchestrator.gpu.telemetry.foreign_use import ForeignUse, Lookout, is_ours
from protocol.failure import Category, Failure, Phase
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
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        try:
            yield pid
        finally:
            os.kill(pid, 9)


def test_what_comes_from_us_is_ours() -> None:
    """The orchestrator itself and whatever it or its children started; not its own parent."""
    with grandchild() as pid:
        assert is_ours(pid, os.getpid()) is True
        assert is_ours(pid, pid) is True
        assert is_ours(os.getpid(), pid) is False
    assert is_ours(os.getppid(), os.getpid()) is False


def test_a_pid_that_cannot_be_seen_is_neither() -> None:
    """It may be ours, by the number that the host has for it."""
    assert is_ours(2**22 + 1, os.getpid()) is None
    assert Lookout(Answers(2**22 + 1), os.getpid()).look("GPU-0", 1) is None


def test_only_changes_are_told() -> None:
    """Who comes and who has left, each once; what the kernel calls the process; nothing of our own processes."""
    nvml = Answers(os.getpid())
    lookout = Lookout(nvml, os.getpid())
    assert lookout.look("GPU-0", 1) is None
    nvml.found = Answers(os.getpid(), os.getppid()).found
    seen = lookout.look("GPU-0", 2)
    assert seen is not None
    assert [one.pid for one in seen.processes] == [os.getppid()]
    assert seen.processes[0].name
    assert lookout.look("GPU-0", 3) is None
    nvml.found = ()
    assert lookout.look("GPU-0", 4) == ForeignSeen(uuid="GPU-0", processes=(), at_ns=4)


def test_drawing_and_lost_gpus_say_nothing() -> None:
    """A process that only draws is not told of; a GPU that does not answer changes nothing that is known."""
    nvml = Answers(os.getppid())
    lookout = Lookout(nvml, os.getpid())
    assert lookout.look("GPU-0", 1) is not None
    nvml.lost = True
    assert lookout.look("GPU-0", 2) is None
    nvml.lost, nvml.silent = False, True
    assert lookout.look("GPU-0", 2) is None
    nvml.silent, nvml.found = False, (GpuProcess(pid=os.getppid(), used_bytes=1, compute=False),)
    assert lookout.look("GPU-0", 3) == ForeignSeen(uuid="GPU-0", processes=(), at_ns=3)


def test_who_was_there_since() -> None:
    """Whoever is there now, or left after that moment; nobody who had left before."""
    use = ForeignUse()
    large = ForeignProcess(pid=7, name="python3", used_bytes=3 * 2**30)
    use.heard(ForeignSeen(uuid="GPU-0", processes=(ForeignProcess(pid=6, name=None, used_bytes=None), large), at_ns=10))
    words = "PID 7 python3, 3.0 GiB, and 1 more"
    assert use.here("GPU-0") == use.during("GPU-0", 99) == words
    assert use.during("GPU-1", 0) == ""
    use.heard(ForeignSeen(uuid="GPU-0", processes=(), at_ns=20))
    assert use.here("GPU-0") == ""
    assert use.during("GPU-0", 20) == words
    assert use.during("GPU-0", 21) == ""


def test_who_is_not_seen_any_more_was_there_and_is_not_here() -> None:
    """What began before the telemetry process died was measured beside him; nobody waits for him afterwards."""
    use = ForeignUse()
    use.note("GPU-0", "PID 7", 10)
    use.unseen(30)
    assert (use.here("GPU-0"), use.during("GPU-0", 20), use.during("GPU-0", 31)) == ("", "PID 7", "")


@pytest.mark.parametrize("category", [Category.OUT_OF_MEMORY, Category.CRASHED])
def test_memory_that_others_have_is_no_want_of_it(category: Category) -> None:
    """Out of memory beside somebody else does not shrink the cell; other failures stay what they are."""
    failure = Failure(category=category, message="it broke", phase=Phase.WARM_UP)
    assert validity.beside(failure, "") == failure
    told = validity.beside(failure, "PID 7 python3")
    if category is Category.CRASHED:
        assert told == failure
    else:
        assert told.category is Category.CONTAMINATED
        assert told.message.startswith("PID 7 python3 computed on the GPU too")
        assert told.message.endswith("it broke")
