"""What a storm must not leave on the machine: processes, by a mark or an open file, sockets, shared memory, files."""

import fcntl
import os
from pathlib import Path

MARK = "GPUBENCH_CHAOS"
_SHM = Path("/dev/shm")
_OURS = ("torch_", "__KMP_", "psm_", "sem.", "pym-", "nccl-")
"""How shared memory begins that gpubench, or a library that it loads, could make; other programs make some too."""


def left(place: Path, run: Path, shared_before: frozenset[str]) -> list[str]:
    """A sentence for each thing that a storm in `place` left behind."""
    return [
        *(f"a process is left: {words}" for words in _processes(place)),
        *(f"a socket folder is left: {one.name}" for one in (place / "runtime").glob("gpubench-*/*/")),
        *(f"a temporary file is left: {one.relative_to(place)}" for one in _temporary(place, run)),
        *(f"shared memory is left: {name}" for name in sorted(shared_memory() - shared_before) if _nobodys(name)),
        *_lock(run / "lock"),
    ]


def descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def shared_memory() -> frozenset[str]:
    return frozenset(one.name for one in _SHM.glob("*") if one.name.startswith(_OURS))


def _processes(place: Path) -> list[str]:
    mark = f"{MARK}={place}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark in (folder / "environ").read_bytes().split(b"\0")
            links = [str(one.readlink()) for one in (folder / "fd").iterdir()]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it has ended, or is somebody else's
        ours = int(folder.name) == os.getpid()
        if not ours and (marked or any(link.startswith(f"{place}/") for link in links)):
            found.append(f"PID {folder.name}, {words}")
    return found


def _temporary(place: Path, run: Path) -> list[Path]:
    return [*(place / "tmp").iterdir(), *run.rglob("*.tmp"), *run.rglob("*.reserve")]


def _lock(path: Path) -> list[str]:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ["the lock of the run is still held: its GPUs are not free"]
        return ["the lock of the run names a process that has ended"] if file.read() else []


def _nobodys(name: str) -> bool:
    """Whether no process maps it or has it open: what another program uses is its own affair."""
    path = str(_SHM / name)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if path in (folder / "maps").read_text() or path in [
                str(one.readlink()) for one in (folder / "fd").iterdir()
            ]:
                return False
        except OSError:
            continue
    return True
