"""Whether a file is on a local disk. Pure.

SQLite's write-ahead log needs memory shared by all processes, which a network file system lacks.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")
LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "overlay", "ramfs", "reiserfs", "tmpfs"}
    | {"ufs", "xfs", "zfs"}
)
"""All other types (nfs, cifs, lustre, fuse.sshfs, 9p) are treated as remote."""

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def is_local(path: Path, mounts: str) -> bool:
    """Whether an absolute path without links is on a local disk. mounts: content of /proc/self/mounts."""
    kind = ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = PurePosixPath(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[1]))
        # The list is in the order of mounting: a later one lies over whatever was there, and below it.
        if path.is_relative_to(point):
            kind = fields[2]
    return kind in LOCAL
