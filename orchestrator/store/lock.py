"""The lock of a run's folder, held by the one process that works on the run.

    working process   flock on `lock`, whose contents are its Holder         ends ─▶ emptied, released
    any process       reads the Holder, and checks by PID and start time whether that process still lives

Readers never try to take the lock, because that would lock the owner out for a moment. A resume does (require_free).
"""

import enum
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.errors import RunFolderError
from orchestrator.system import host
from protocol.paths import RunPaths

_NAMESPACE: Final = Path("/proc/self/ns/pid")
_MAX_BYTES: Final = 4096


class Holder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process that works on a run. start_ticks: its start in clock ticks since boot (/proc/PID/stat).

    boot_id, hostname, namespace: the boot, host and PID namespace in which the PID is valid.
    """

    pid: int
    start_ticks: int
    boot_id: str
    hostname: str
    namespace: str


class Life(enum.StrEnum):
    """Whether the process that holds the lock lives. ELSEWHERE: it is not visible from this host or container."""

    ALIVE = "alive"
    ENDED = "ended"
    ELSEWHERE = "elsewhere"


@contextmanager
def held(paths: RunPaths) -> Iterator[None]:
    """Within `with`, hold the run's lock. Raises RunFolderError if another process has it or it cannot be opened."""
    try:
        lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunFolderError(f"{paths.lock}: cannot be opened: {error.strerror}") from error
    try:
        _take(lock, paths)
        _write(lock, msgspec.json.encode(myself()))
        yield
        _write(lock, b"")
    finally:
        os.close(lock)


def require_free(paths: RunPaths) -> None:
    """Raise RunFolderError if a process holds the run's lock, which is taken for a moment to find out.

    Do nothing if the file is missing or unreadable.
    """
    try:
        lock = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # never held yet, or `held` will report the error
    try:
        _take(lock, paths)
    finally:
        os.close(lock)


def holder(paths: RunPaths) -> Holder | None:
    """Return the process that holds the lock, or that was killed or failed while it held it (see `life`).

    None if there is neither, or if the file cannot be read or decoded.
    """
    try:
        with paths.lock.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Holder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def life(of: Holder) -> Life:
    """Return whether the process `of` lives, which is unknown (ELSEWHERE) on another host or in another container."""
    here = myself()
    if of.hostname != here.hostname and of.boot_id != here.boot_id:
        return Life.ELSEWHERE
    if of.boot_id != here.boot_id:
        return Life.ENDED  # it ended with the boot in which it ran
    if of.namespace != here.namespace:
        return Life.ELSEWHERE
    return Life.ALIVE if host.start_ticks(of.pid) == of.start_ticks else Life.ENDED


def myself() -> Holder:
    """Return the identity of this process, to be written into a lock file."""
    return Holder(
        pid=os.getpid(),
        start_ticks=host.start_ticks(os.getpid()) or 0,
        boot_id=host.boot_id(),
        hostname=socket.gethostname(),
        namespace=_namespace(),
    )


def _namespace() -> str:
    try:
        return str(_NAMESPACE.readlink())
    except OSError:
        return ""


def _take(lock: int, paths: RunPaths) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunFolderError(
            f"{paths.folder} is in use by another process. Wait until it ends, or run "
            f"`gpubench-orchestrate stop {paths.folder}`. Then resume."
        ) from error


def _write(lock: int, data: bytes) -> None:
    """Replace the contents of the lock file. Ignore errors: on a full disk it stays empty."""
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, data, 0)
    except OSError:
        return
