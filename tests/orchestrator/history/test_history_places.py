"""history/location.py and mounts.py: where the history is, and on what kind of disk."""

from pathlib import Path

import pytest

from orchestrator.errors import HistoryError
from orchestrator.history.location import Place, find
from orchestrator.history.mounts import is_local

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/local xfs rw 0 0
tmpfs /run tmpfs rw 0 0
server:/x /mnt/with\\040blank cifs rw 0 0
autofs /data autofs rw 0 0
/dev/vdc /data btrfs rw 0 0
/dev/vdd /srv/deep ext4 rw 0 0
server:/srv /srv nfs4 rw 0 0
garbage
"""


def test_the_history_is_in_the_users_data_folder(tmp_path: Path) -> None:
    """XDG_DATA_HOME, else the home folder, unless somebody names a file; a relative XDG_DATA_HOME is ignored."""
    home = {"HOME": str(tmp_path)}
    own = Place(tmp_path / ".local/share/gpubench/history.db", default=True)
    assert find(None, {"XDG_DATA_HOME": "/x", **home}) == Place(Path("/x/gpubench/history.db"), default=True)
    assert find(None, {"XDG_DATA_HOME": "x", **home}) == own
    assert find(None, home) == own
    assert find("my.db", home) == Place(Path("my.db"), default=False)


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "relative"}, {"HOME": "/nowhere/at/all"}])
def test_without_a_home_there_is_no_history(environment: dict[str, str]) -> None:
    """As words for a note, which say what to do."""
    with pytest.raises(HistoryError, match="neither XDG_DATA_HOME nor HOME names one"):
        find(None, environment)


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/var/history.db", True),
        ("/home/me/history.db", False),
        ("/home/local/history.db", True),
        ("/homeless/history.db", True),
        ("/run/history.db", True),
        ("/mnt/with blank/history.db", False),
        ("/mnt/without/history.db", True),
        ("/data/history.db", True),
        ("/srv/deep/history.db", False),
    ],
)
def test_the_last_mount_over_a_path_says_what_disk_it_is(path: str, local: bool) -> None:
    """It may hide others; names are compared whole, with their escapes undone."""
    assert is_local(Path(path), MOUNTS) is local


def test_what_nobody_knows_is_taken_for_a_network() -> None:
    """An unknown type, and no list at all."""
    path = Path("/history.db")
    assert not is_local(path, "x / fuse.something rw 0 0\n")
    assert not is_local(path, "")
