"""Files of a run that grow as it goes on, read with suspicion: whoever made the folder, they fit into memory."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

CAP_BYTES: Final = 1024 * 1024 * 1024
"""20,000 cells make a journal of 10 MB, and a run.yaml cannot plan many more. Samples of a GPU end at 256 MiB; looks at
the health of eight GPUs take a month to get here."""


def read(path: Path, start: int = 0) -> bytes:
    """What is in a file, from its byte `start` on.

    Raises OSError also for what is no regular file, such as a device without end or a pipe that nobody writes to, and
    for a file beyond CAP_BYTES.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file, so not written by gpubench")
        if status.st_size > CAP_BYTES:
            raise OSError(errno.EFBIG, f"larger than {CAP_BYTES >> 20} MiB, so not written by gpubench")
        file.seek(start)
        return file.read(max(0, status.st_size - start))


def _without_waiting(path: str, flags: int) -> int:
    """Open a file. A pipe would otherwise be waited for before anybody could see that it is one."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
