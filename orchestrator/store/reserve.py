"""Reserved disk space, so that a run can record on a full disk why it stopped.

After each failed launch the disk is asked for more: without space the cell is not at fault.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

SIZE_BYTES: Final = 16 * 1024


_ASKED_BYTES: Final = 4096
_FIRST_BYTES: Final = 64 * 1024
"""Space for the reserve, the journal, the lock, and the logs of the first processes."""


class Reserve:
    """A file of reserved space. Raises OSError where the disk has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _take(path, SIZE_BYTES)

    def require_more(self) -> None:
        """Check that the disk has further space. Raises OSError."""
        asked = self._path.with_suffix(".asked")
        _take(asked, _ASKED_BYTES)
        asked.unlink()

    def give_up(self) -> None:
        """Release the space. May be called again."""
        remove(self._path)


def require_first(folder: Path) -> None:
    """Check that a run can begin in its folder. Raises OSError."""
    asked = folder / "journal.asked"
    _take(asked, _FIRST_BYTES)
    asked.unlink()


def remove(path: Path) -> None:
    """Remove a reserve, also that of a killed process."""
    for file in (path, path.with_suffix(".asked")):
        with contextlib.suppress(OSError):  # whatever keeps it, nobody needs the file any more
            file.unlink()


def _take(path: Path, size: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(fd)
