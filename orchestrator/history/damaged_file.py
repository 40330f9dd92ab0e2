"""Move a damaged history aside, to an unused name: history.damaged-1.db.

The process that holds the lock on the file moves it. Other processes see by its inode that it was moved.
"""

import fcntl
import os
from itertools import count
from pathlib import Path
from typing import Final

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""Endings of the files beside a database, which SQLite would use for a new database of this name."""


def move(path: Path, inode: int | None) -> Path | None:
    """Rename the damaged history at `path` and its -wal, -shm and -journal files. Returns the new path.

    inode: of the damaged file, read before it was opened; None if there was no file. Returns None, and renames nothing,
    if `path` no longer has this inode: another process moved the file. Raises OSError if opening or renaming fails.
    """
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not (os.fstat(file.fileno()).st_ino == inode == path.stat().st_ino):
                return None
            free = _free_name(path)
            for tail in _COMPANIONS:
                companion = path.with_name(path.name + tail)
                if companion.exists():
                    companion.rename(free.with_name(free.name + tail))
            path.rename(free)
            return free
    except FileNotFoundError:
        return None


def _free_name(path: Path) -> Path:
    for number in count(1):
        free = path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")
        if not any(os.path.lexists(f"{free}{tail}") for tail in ("", *_COMPANIONS)):
            return free
    raise AssertionError  # count has no end
