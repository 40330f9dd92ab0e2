"""Reserved disk space, so that a run can record on a full disk why it stopped.

After each failed measurement the run requests a little more space. If it gets none, the full disk was the cause.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

SIZE_BYTES: Final = 16 * 1024


_ASKED_BYTES: Final = 4096
_FIRST_BYTES: Final = 64 * 1024
"""Bytes for the first files of a run: reserve, journal, lock, and the logs of the first processes."""


class Reserve:
    """A file at `path` of SIZE_BYTES that reserves disk space. Raises OSError if the disk has no room for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _take(path, SIZE_BYTES)

    def require_more(self) -> None:
        """Raise OSError if the disk has not even 4 KiB free besides the reserve."""
        asked = self._path.with_suffix(".asked")
        _take(asked, _ASKED_BYTES)
        asked.unlink()

    def give_up(self) -> None:
        """Delete the reserved space, so that a record can be written. A second call does nothing."""
        remove(self._path)


def require_first(folder: Path) -> None:
    """Raise OSError if the disk of `folder`, the run's, has no room for the first files of a run (64 KiB)."""
    asked = folder / "journal.asked"
    _take(asked, _FIRST_BYTES)
    asked.unlink()


def remove(path: Path) -> None:
    """Remove the file of reserved space at `path`. Ignore errors.

    Also remove the file with suffix .asked beside it, which a killed check for free space may have left.
    """
    for file in (path, path.with_suffix(".asked")):
        with contextlib.suppress(OSError):  # whatever keeps it, nobody needs the file any more
            file.unlink()


def _take(path: Path, size: int) -> None:
    # Without fallocate of the file system, glibc reads what the file already has.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(fd)
