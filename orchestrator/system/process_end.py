"""Read how processes ended, and end them."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from orchestrator.system import host

Identity = tuple[int, int]
"""PID and start time in clock ticks since boot: together they identify a process of this boot."""
_KILLED_S: Final = 5.0


@dataclass(frozen=True)
class Exit:
    """How a process ended: by its exit code, or by the signal that killed it. The other field is None."""

    code: int | None
    signal: int | None

    @property
    def description(self) -> str:
        """The end in words: "exit code 3", "killed by SIGKILL"."""
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return f"killed by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"killed by signal {self.signal}"


def reap(pid: int) -> Exit | None:
    """Wait until a child process ends, and return how. None if it was reaped before or is not our child."""
    return _reap(pid, os.WEXITED)


def reap_now(pid: int) -> Exit | None:
    """Return how a child process ended, without waiting; None if it still lives, was reaped or is not our child."""
    return _reap(pid, os.WEXITED | os.WNOHANG)


def _reap(pid: int, options: int) -> Exit | None:
    try:
        status = os.waitid(os.P_PID, pid, options)
    except ChildProcessError:
        return None
    if status is None:
        return None
    exited = status.si_code == os.CLD_EXITED
    return Exit(code=status.si_status if exited else None, signal=None if exited else status.si_status)


def reap_orphan(known_pids: Collection[int | None]) -> int | None:
    """Reap one ended child not in `known_pids` (an adopted grandchild), without waiting. Return its PID, or None."""
    try:
        status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if status is None:
        return None
    shown = status.si_pid
    candidates = [child.pid for child in psutil.Process().children()] if shown in known_pids else [shown]
    return next((pid for pid in candidates if pid not in known_pids and reap_now(pid) is not None), None)


def was_stopped(pid: int) -> bool:
    """Whether a child process was stopped or continued by a signal since the last call. False if it was reaped."""
    changed = False
    with contextlib.suppress(ChildProcessError):  # it was reaped before
        while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG) is not None:
            changed = True
    return changed


def ends_within(pidfd: int, patience_s: float) -> bool:
    """Wait at most `patience_s` seconds for the process of a pidfd to end. Return True if it has ended."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(patience_s * 1000))


def signal_quietly(pid: int, number: signal.Signals) -> None:
    """Send a signal to a child. Does nothing if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that worker `pid` leads, else to `pid` alone. Ignore it if all have ended."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        signal_quietly(pid, number)


def end_leftovers(processes: Iterable[Identity]) -> None:
    """Kill processes with these PIDs and start times, except us and our ancestors. Wait at most 5 s for their end."""
    spared = _lineage()
    others = [identity for identity in processes if identity[0] not in spared]
    killed = [pidfd for pid, ticks in others if (pidfd := _opened(pid, ticks)) is not None]
    for pidfd in killed:
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    until = time.monotonic() + _KILLED_S
    for pidfd in killed:
        ends_within(pidfd, max(0.0, until - time.monotonic()))
        os.close(pidfd)


def orphans(workers: Collection[Identity], folder: Path) -> list[Identity]:
    """Return PID and start time of the processes that workers of a dead orchestrator left behind.

    Such a process is in the session of one of the `workers`, and has a file below `folder` (the run's) open. Excluded:
    processes older than that worker, sessions whose leader is a later process with the worker's PID, the session of
    this process, and its ancestors.
    """
    started, spared = dict(workers), _lineage()
    found = []
    for pid in psutil.pids() if workers else ():
        try:
            session = os.getsid(pid)
            ticks, leader = host.start_ticks(pid), host.start_ticks(session)
            if pid in spared or session == os.getsid(0) or session not in started or ticks is None:
                continue
            if ticks >= started[session] > 0 and leader in (None, started[session]) and holds(pid, folder):
                found.append((pid, ticks))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def _lineage() -> frozenset[int]:
    return frozenset({os.getpid(), *(parent.pid for parent in psutil.Process().parents())})


def holds(pid: int, folder: Path) -> bool:
    """Whether a process has a file below `folder` open. Raises OSError if it has ended or belongs to another user."""
    return any(link.readlink().is_relative_to(folder) for link in Path(f"/proc/{pid}/fd").iterdir())


def signal_same(pid: int, ticks: int, number: signal.Signals) -> bool:
    """Send a signal to process `pid` only if its start time is still `ticks`. Return True if it was sent.

    ticks: start time in clock ticks since boot. Raises PermissionError for a process of another user.
    """
    pidfd = _opened(pid, ticks)
    if pidfd is None:
        return False
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def _opened(pid: int, ticks: int) -> int | None:
    if host.start_ticks(pid) != ticks:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if host.start_ticks(pid) == ticks:
        return pidfd
    os.close(pidfd)
    return None
