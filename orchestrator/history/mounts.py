"""Whether a file lies on a disk of this machine, told by the type of its file system. Pure.

SQLite's write-ahead log needs memory that all its processes share, which a network does not give.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")
LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "overlay", "ramfs", "reiserfs", "tmpfs"}
    | {"ufs", "xfs", "zfs"}
)
"""Whatever is not here may be another machine's (nfs, cifs, lustre, fuse.sshfs, 9p), so it is taken for that."""

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def is_local(path: Path, mounts: str) -> bool:
    """Whether `path`, absolute and without links, is on a local disk. mounts: what /proc/self/mounts says."""
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
