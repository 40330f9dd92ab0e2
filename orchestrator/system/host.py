"""Read facts about this machine and its processes from /proc and /sys."""

import os
import time
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PROC: Final = Path("/proc")


def boot_id() -> str:
    """Return the kernel's id of the current boot; empty if unknown."""
    return text(_BOOT_ID).strip()


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if there is no such process."""
    fields = _fields(pid)
    return int(fields[19]) if fields else None


def parent(pid: int) -> int | None:
    """Return the PID of a process's parent; 0 for PID 1, None if there is no such process."""
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def process_state(pid: int) -> str:
    """Describe a process's state and CPU time: "T (stopped), 0.3 s of CPU time"; empty if there is no such process."""
    state = next((line for line in text(_PROC / str(pid) / "status").splitlines() if line.startswith("State:")), "")
    fields = _fields(pid)
    if not state or not fields:
        return ""
    computed_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return f"{state.removeprefix('State:').strip()}, {computed_s:.1f} s of CPU time"


def _fields(pid: int) -> list[str]:
    return text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def process_name(pid: int) -> str | None:
    """Return the kernel's name of a process (comm, cut to 15 characters); None if there is no such process."""
    return text(Path(f"/proc/{pid}/comm")).strip() or None


def age_s(pid: int | None = None) -> float:
    """Return the seconds since a process started, by default this one; 0.0 if unknown."""
    ticks = start_ticks(os.getpid() if pid is None else pid)
    if ticks is None:
        return 0.0
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)


def text(path: Path) -> str:
    """Return the text of a kernel file (/proc, /sys); empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """Read the whole number in a kernel file; None if it is missing or has other contents ("max", "-1")."""
    content = text(path).strip()
    return int(content) if content.isdigit() else None
