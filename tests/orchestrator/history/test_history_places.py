"""history/location.py and store.py: where the history is, and on what kind of disk."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from orchestrator.errors import HistoryError
from orchestrator.history.location import Place, find
from orchestrator.history.store import is_local

MOUNTS = (
    ("/", "ext4"),
    ("/home", "nfs4"),
    ("/home/local", "xfs"),
    ("/run", "tmpfs"),
    ("/mnt/with blank", "cifs"),
    ("/data", "autofs"),
    ("/data", "btrfs"),
    ("/srv/deep", "ext4"),
    ("/srv", "nfs4"),
)


def mount(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[str, str]) -> None:
    found = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda *, all: found if all else [])


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
    with pytest.raises(HistoryError, match="XDG_DATA_HOME nor HOME"):
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
def test_the_last_mount_over_a_path_says_what_disk_it_is(
    monkeypatch: pytest.MonkeyPatch, path: str, local: bool
) -> None:
    """It may hide others; names are compared whole."""
    mount(monkeypatch, *MOUNTS)
    assert is_local(Path(path)) is local


def test_what_nobody_knows_is_taken_for_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown type, and no list at all."""
    for mounts in ((("/", "fuse.something"),), ()):
        mount(monkeypatch, *mounts)
        assert not is_local(Path("/history.db"))
