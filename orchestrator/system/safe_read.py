"""Read files of a run that another user may have made: only regular files that fit into memory."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

CAP_BYTES: Final = 1024 * 1024 * 1024
"""Limit of a file. 20,000 cells make a journal of 10 MB; health records of eight GPUs take 1 GiB a month."""

_NOT_REGULAR: Final = "not a regular file, but a pipe, a device or a socket"


def read(path: Path, start: int = 0, *, cap_bytes: int | None = None) -> bytes:
    """Return a file's bytes from `start` on. cap_bytes: limit of the whole file's size, None for CAP_BYTES (1 GiB).

    Raises OSError for an unreadable file, one that is not regular, and one above the limit.
    """
    cap_bytes = CAP_BYTES if cap_bytes is None else cap_bytes
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > cap_bytes:
            raise OSError(errno.EFBIG, f"larger than {cap_bytes >> 20} MiB, so gpubench did not write it")
        file.seek(start)
        return file.read(max(0, size - start))


def opened(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError if it cannot be opened, or is a device, a pipe or a socket."""
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.EINVAL, _NOT_REGULAR) from error
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, _NOT_REGULAR)
    return file


def is_there(path: Path) -> bool:
    """Whether a file, folder or other entry exists at `path`. False for a dangling link, and if it cannot be seen."""
    try:
        return path.exists()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder exists at `path`. False if it cannot be seen. Never raises."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would otherwise wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
