"""The control groups (version 1 and 2) of this process: limits of memory, cores and processes; out-of-memory kills."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from orchestrator.system import host

T = TypeVar("T", int, float)

_ROOT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_VMSTAT: Final = Path("/proc/vmstat")
_UNLIMITED_BYTES: Final = 1 << 60
"""A limit of memory above this means "no limit", for which version 1 writes the largest multiple of a page."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Tightest limits of our control groups; None: no limit.

    cores: CPU seconds per second. processes: number of processes and threads.
    """

    memory_bytes: int | None = None
    cores: float | None = None
    processes: int | None = None


def limits(root: Path = _ROOT, own: Path = _OWN) -> Limits:
    """Read the limits of this process. root: folder of control groups. own: the file that names our groups."""
    return Limits(
        memory_bytes=_tightest(root, own, "memory", _memory),
        cores=_tightest(root, own, "cpu", _cores),
        processes=_tightest(root, own, "pids", lambda folder: host.number(folder / "pids.max")),
    )


def oom_kills(root: Path = _ROOT, own: Path = _OWN, host_file: Path = _VMSTAT) -> int | None:
    """Return how many processes the kernel has killed for lack of memory so far; None if unknown.

    The number is that of this process's control group, else of its nearest ancestor that counts them, else of the host.
    root: folder of control groups. own: the file that names our groups. host_file: the counters of the whole host.
    """
    counter = _oom_counter(root, own, host_file)
    return None if counter is None else _kills_in(counter)


@functools.cache
def _oom_counter(root: Path, own: Path, host_file: Path) -> Path | None:
    """Find the first file that counts out-of-memory kills; None if there is none. Cached, because each launch reads it.

    The files of this process's control group come first, then those of its ancestors, then `host_file`. root: folder of
    control groups. own: the file that names our groups. host_file: the counters of the whole host (/proc/vmstat).
    """
    groups = [
        group / name for group in _folders(root, own, "memory") for name in ("memory.events", "memory.oom_control")
    ]
    return next((path for path in (*groups, host_file) if _kills_in(path) is not None), None)


def _kills_in(path: Path) -> int | None:
    return next((int(line.split()[1]) for line in host.text(path).splitlines() if line.startswith("oom_kill ")), None)


def _tightest(root: Path, own: Path, controller: str, read: Callable[[Path], T | None]) -> T | None:
    return min(
        (limit for folder in _folders(root, own, controller) if (limit := read(folder)) is not None), default=None
    )


def _folders(root: Path, own: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of its ancestors, the group itself first.

    In a container these folders may be missing, except `root`, the folder of all control groups. own: the file that
    names our groups. controller: its name in version 1, such as "memory"; groups of version 2 are always included.
    """
    for line in host.text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = root / controller if controllers else root
        group = base / path.lstrip("/")
        yield group
        yield from (parent for parent in group.parents if parent.is_relative_to(base))


def _memory(folder: Path) -> int | None:
    value = host.number(folder / "memory.max") or host.number(folder / "memory.limit_in_bytes")
    return value if value is not None and value < _UNLIMITED_BYTES else None


def _cores(folder: Path) -> float | None:
    quota, _, period = host.text(folder / "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = host.text(folder / "cpu.cfs_quota_us").strip(), host.text(folder / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None
