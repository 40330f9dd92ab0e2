"""What the kernel tells about this machine and its processes. Small readings of /proc and /sys, nothing else."""

import os
import time
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_CGROUP: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")
_VMSTAT: Final = Path("/proc/vmstat")
_PROC: Final = Path("/proc")


def boot_id() -> str:
    """Identity of this boot; empty where the kernel does not tell."""
    return text(_BOOT_ID).strip()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; with the PID, its identity. None when there is none."""
    fields = _fields(Path(f"/proc/{pid}"))
    return int(fields[19]) if fields else None


def parent(pid: int) -> int | None:
    """The parent of a process; 0 for the first of all, None where there is no such process."""
    fields = _fields(Path(f"/proc/{pid}"))
    return int(fields[1]) if fields else None


def process_state(pid: int) -> str:
    """The kernel's state of a process and its CPU time; empty where there is no such process.

    "T (stopped), 0.3 s of CPU time"; D waits in the kernel, where no signal reaches it.
    """
    state = next((line for line in text(_PROC / str(pid) / "status").splitlines() if line.startswith("State:")), "")
    fields = _fields(_PROC / str(pid))
    if not state or not fields:
        return ""
    computed_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return f"{state.removeprefix('State:').strip()}, {computed_s:.1f} s of CPU time"


def _fields(process: Path) -> list[str]:
    """What `stat` says of a process behind its name, which may hold spaces and brackets itself; empty for none."""
    return text(process / "stat").rpartition(")")[2].split()


def process_name(pid: int) -> str | None:
    """The name that the kernel has for a process; None where there is no such process."""
    return text(Path(f"/proc/{pid}/comm")).strip() or None


def age_s(pid: int | None = None) -> float:
    """Seconds since a process started, this one unless told, by the kernel's account; 0.0 where it does not tell."""
    ticks = start_ticks(os.getpid() if pid is None else pid)
    started_s = None if ticks is None else ticks / os.sysconf("SC_CLK_TCK")
    return 0.0 if started_s is None else max(time.clock_gettime(time.CLOCK_BOOTTIME) - started_s, 0.0)


def oom_kills() -> int | None:
    """How many processes the kernel has killed for want of memory: in our cgroup where it counts, else on the host."""
    for path in (
        _CGROUP / _own_cgroup("") / "memory.events",
        _CGROUP / "memory" / _own_cgroup("memory") / "memory.oom_control",
        _CGROUP / "memory" / "memory.oom_control",
        _VMSTAT,
    ):
        for line in text(path).splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
    return None


def _own_cgroup(controller: str) -> str:
    """This process's cgroup below the folder of a controller of version 1, or, for "", of version 2."""
    for line in text(_OWN_CGROUP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return ""


def text(path: Path) -> str:
    """What a file of the kernel says; empty where there is none, or it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """The whole number in a file of the kernel; None for anything else ("max"), and where there is no such file."""
    said = text(path).strip()
    return int(said) if said.isdigit() else None
