"""Room on the disk that is kept for a run's last words: a full disk must not keep it from saying why it stopped.

A full disk is seen by whoever writes first, which may be a worker that breaks for it. So the disk is asked for room
whenever a launch has failed: without any, the cell is not to blame, and nothing more can be measured.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

SIZE_BYTES: Final = 16 * 1024
"""Some blocks of any file system; the last words take one."""


_ASKED_BYTES: Final = 4096


class Reserve:
    """A file that is nothing but room. Raises OSError where the disk has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _take(path, SIZE_BYTES)

    def require_more(self) -> None:
        """Make sure that there is room beside what is kept. Raises OSError where there is none."""
        asked = self._path.with_suffix(".asked")
        _take(asked, _ASKED_BYTES)
        asked.unlink()

    def give_up(self) -> None:
        """Give the room back. May be called again."""
        with contextlib.suppress(OSError):  # whatever keeps it, nobody needs the file any more
            self._path.unlink()


def _take(path: Path, size: int) -> None:
    """Make a file of so many bytes that are really there."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(fd)
