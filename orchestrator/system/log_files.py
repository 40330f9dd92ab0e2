"""Log files of workers, the zygote and hooks, kept below a size limit without blocking the process that prints."""

import ctypes
import os
from pathlib import Path
from typing import Final

from protocol.failure import Phase
from protocol.paths import RunPaths

CAP_BYTES: Final = 8 * 1024 * 1024
ALL_BYTES: Final = 1024 * 1024 * 1024
_HEAD_BYTES: Final = 1024 * 1024
_TAIL_BYTES: Final = 3 * 1024 * 1024
_BRIEF_HEAD_BYTES: Final = 16 * 1024
_BRIEF_TAIL_BYTES: Final = 48 * 1024
TAIL_TEXT_BYTES: Final = 2_000
_BLOCK: Final = 512
_FALLOC_FL_KEEP_SIZE: Final = 1
_FALLOC_FL_PUNCH_HOLE: Final = 2


def hold_below_cap(path: Path) -> None:
    """Punch a hole into a log that takes over CAP_BYTES on disk: its first MiB and last 3 MiB stay.

    The hole reads as zero bytes. A process may still write to the log. If the file system has no holes, only the first
    MiB stays. Ignores a missing file.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    if status.st_blocks * _BLOCK <= CAP_BYTES:
        return
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        length = status.st_size - _TAIL_BYTES - _HEAD_BYTES
        if length > 0 and not _punch(fd, _HEAD_BYTES, length):
            os.ftruncate(fd, _HEAD_BYTES)  # a file system without holes keeps the beginning only
    finally:
        os.close(fd)


class RunLogs:
    """The total size of the logs of one run (`bytes`), which limits how much of further logs is kept."""

    def __init__(self, paths: RunPaths) -> None:
        self.bytes = sum(path.stat().st_size for path in paths.of_processes("std*.log"))

    def compact(self, path: Path) -> None:
        """Cut the log of an ended process to 4 MiB if it is larger than CAP_BYTES.

        Once the logs of the run take ALL_BYTES together, cut it to 64 KiB if it is larger than that. A missing log is
        ignored.
        """
        if self.bytes < ALL_BYTES:
            compact(path, CAP_BYTES, _HEAD_BYTES, _TAIL_BYTES)
        else:
            compact(path, _BRIEF_HEAD_BYTES + _BRIEF_TAIL_BYTES, _BRIEF_HEAD_BYTES, _BRIEF_TAIL_BYTES)
        self.bytes += path.stat().st_size if path.exists() else 0


def compact(path: Path, cap: int = CAP_BYTES, head: int = _HEAD_BYTES, tail: int = _TAIL_BYTES) -> None:
    """Replace the middle of the file of an ended process by a line that says how many bytes were cut out.

    Only a file of more than `cap` bytes is cut. Its first `head` and last `tail` bytes stay. A missing file is ignored.
    On a full disk the file stays as it is.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return
    if size <= cap:
        return
    missing = size - head - tail
    temporary = path.with_suffix(".tmp")
    try:
        with path.open("rb") as source, temporary.open("wb") as target:
            target.write(source.read(head))
            target.write(f"\n[… {missing:,} bytes were cut out here …]\n".encode())
            source.seek(-tail, os.SEEK_END)
            target.write(source.read())
        temporary.rename(path)
    except OSError:  # a full disk: the file stays with its hole
        temporary.unlink(missing_ok=True)


def phase_reached(path: Path, otherwise: Phase) -> Phase:
    """Return the phase (start, warm-up, …) that a worker wrote to the file at `path`; `otherwise` if unreadable."""
    try:
        return Phase(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return otherwise


def tail(path: Path, length: int = TAIL_TEXT_BYTES) -> str:
    """Return the last `length` bytes of a log as stripped text, possibly from within a line; "" if there is no log."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - length))
            return file.read().decode("utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def _punch(fd: int, offset: int, length: int) -> bool:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
    mode = ctypes.c_int(_FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE)
    return bool(fallocate(ctypes.c_int(fd), mode, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0)
