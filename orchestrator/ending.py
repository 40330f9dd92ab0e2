"""Processes: how their end is read, and how they are ended. How they are started is in spawn.py.

Nobody calls waitpid(-1); unknown orphans are looked at first.
"""

import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator import host


@dataclass(frozen=True)
class Exit:
    """How a process ended: exactly one of the two is set."""

    code: int | None
    signal: int | None

    @property
    def words(self) -> str:
        """For people: "exit code 3", "killed by SIGKILL"."""
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return f"killed by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"killed by signal {self.signal}"


def reap(pid: int) -> Exit | None:
    """Wait for a child that is ending and read how. None when it was not ours to wait for."""
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED)
    except ChildProcessError:
        return None
    return None if status is None else _exit_of(status)


def reap_now(pid: int) -> Exit | None:
    """As `reap`, without waiting: None while the child lives, or when it is not ours."""
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    return None if status is None else _exit_of(status)


def reap_orphan(known: Collection[int | None]) -> int | None:
    """Reap one ended child that is not in `known` (a grandchild that came back to us). Returns its PID, or None.

    The kernel shows one ended child, and the same again until it is reaped. Where that one is known, children are
    looked at one by one, which reads all of /proc: seldom, because what is known is reaped as soon as it ends.
    """
    try:
        status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if status is None:
        return None
    shown = status.si_pid
    candidates = [child.pid for child in psutil.Process().children()] if shown in known else [shown]
    return next((pid for pid in candidates if pid not in known and reap_now(pid) is not None), None)


def signal_quietly(pid: int, number: signal.Signals) -> None:
    """Send a signal to a child that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a worker and everything it started: it leads its own session and group."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        signal_quietly(pid, number)


def end_leftover(pid: int, ticks: int) -> bool:
    """Kill a process of an earlier life of this run, if PID and start time are still the same. Says whether it did."""
    return signal_same(pid, ticks, signal.SIGKILL)


def end_orphans(sessions: Collection[int], folder: Path) -> None:
    """Kill what workers of an earlier life have started: in one of their sessions, with a file of `folder` open.

    The kernel ends a worker with its orchestrator, but not what the worker has started.
    """
    for process in psutil.process_iter() if sessions else ():
        try:
            if os.getsid(process.pid) in sessions and _holds(process.pid, folder):
                process.kill()
        except (OSError, psutil.Error):  # it has ended, or is somebody else's
            continue


def _holds(pid: int, folder: Path) -> bool:
    return any(link.readlink().is_relative_to(folder) for link in Path(f"/proc/{pid}/fd").iterdir())


def signal_same(pid: int, ticks: int, number: signal.Signals) -> bool:
    """Send a signal to a process that need not be a child, if PID and start time are still the same.

    Says whether it did. Raises PermissionError for a process of another user.
    """
    if host.start_ticks(pid) != ticks:
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if host.start_ticks(pid) != ticks:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def _exit_of(status: os.waitid_result) -> Exit:
    if status.si_code == os.CLD_EXITED:
        return Exit(code=status.si_status, signal=None)
    return Exit(code=None, signal=status.si_status)
