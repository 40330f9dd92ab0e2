"""Small readings of /proc and /sys about this machine and its processes."""

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
    """Identity of this boot; empty where unknown."""
    return text(_BOOT_ID).strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, None where there is none; with the PID its identity."""
    fields = _fields(pid)
    return int(fields[19]) if fields else None


def parent(pid: int) -> int | None:
    """The parent of a process; 0 for the first of all, None where there is no such process."""
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def process_state(pid: int) -> str:
    """State and CPU time of a process, "T (stopped), 0.3 s of CPU time"; empty where there is none."""
    state = next((line for line in text(_PROC / str(pid) / "status").splitlines() if line.startswith("State:")), "")
    fields = _fields(pid)
    if not state or not fields:
        return ""
    computed_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return f"{state.removeprefix('State:').strip()}, {computed_s:.1f} s of CPU time"


def _fields(pid: int) -> list[str]:
    """The fields of `stat` behind the name, which may contain spaces and brackets; empty for no process."""
    return text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def process_name(pid: int) -> str | None:
    """The kernel's name of a process; None where there is no such process."""
    return text(Path(f"/proc/{pid}/comm")).strip() or None


def age_s(pid: int | None = None) -> float:
    """Seconds since a process started, by default this one; 0.0 where unknown."""
    ticks = start_ticks(os.getpid() if pid is None else pid)
    if ticks is None:
        return 0.0
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)


def oom_kills() -> int | None:
    """Processes killed by the kernel for lack of memory: in our cgroup where it counts, else on the host."""
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
    """This process's cgroup below the folder of a controller of version 1, or of version 2 for ""."""
    for line in text(_OWN_CGROUP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return ""


def text(path: Path) -> str:
    """Contents of a file of the kernel; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """The whole number in a file of the kernel; None for anything else ("max"), and without the file."""
    content = text(path).strip()
    return int(content) if content.isdigit() else None
