"""Files of a run that grow as it goes on, read with suspicion: whoever made the folder, they fit into memory."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

CAP_BYTES: Final = 1024 * 1024 * 1024
"""20,000 cells make a journal of 10 MB. Samples of a GPU end at 256 MiB; looks at the health of eight GPUs take a month
to get here. A plan has a cap of its own (run_files.py), for its values take several times the memory of their text."""

_NOT_REGULAR: Final = "not a regular file, but a pipe, a device or a socket"


def read(path: Path, start: int = 0, *, cap_bytes: int | None = None) -> bytes:
    """What is in a file, from its byte `start` on.

    Raises OSError also for what is no regular file, and for a file beyond `cap_bytes`, CAP_BYTES where none is given.
    """
    cap_bytes = CAP_BYTES if cap_bytes is None else cap_bytes
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > cap_bytes:
            raise OSError(errno.EFBIG, f"larger than {cap_bytes >> 20} MiB, so not written by gpubench")
        file.seek(start)
        return file.read(max(0, size - start))


def opened(path: Path) -> BinaryIO:
    """A regular file, open for reading.

    Raises OSError also for what is none: a device has no end, and a pipe would be waited for until somebody writes.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - whoever asked for it closes it
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.EINVAL, _NOT_REGULAR) from error
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, _NOT_REGULAR)
    return file


def is_there(path: Path) -> bool:
    """Whether there is anything of that name, as far as can be seen: not in a folder that is closed to us.

    No file can have a name that is too long.
    """
    try:
        return path.exists()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name; likewise."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _without_waiting(path: str, flags: int) -> int:
    """Open a file. A pipe would otherwise be waited for before anybody could see that it is one."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
