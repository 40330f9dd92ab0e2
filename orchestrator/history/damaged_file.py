"""Puts a damaged history out of the way, under a name that nothing has: history.damaged-1.db. Nothing is deleted.

Two processes may find the same damage. Whoever holds the damaged file's lock moves it; the other one then sees that
another file, or none, has its name by now, and leaves that alone.
"""

import fcntl
import os
from itertools import count
from pathlib import Path
from typing import Final

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database. Left behind, it would be taken for that of the new one."""


def move(path: Path, inode: int | None) -> Path | None:
    """Move the file that has that inode; returns where to, None where somebody has done it. Raises OSError."""
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
