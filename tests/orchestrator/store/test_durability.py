"""Durability, observed at the system calls, since no test can cut the power."""

import errno
import functools
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import StorageError
from orchestrator.store import journal
from orchestrator.store.journal import MAGIC, Journal
from orchestrator.store.journal_records import Finished, Start
from protocol import codec
from tests.fakes.conducting import conducting
from tests.fakes.results import result
from tests.fakes.runs import gpus

RECORD = Start(launch=1, cell="c", round=0, attempt=1, batch_size=8, device="cpu:0", at_ns=1)
LAST = Finished(at_ns=2, interrupted=True, reason="stopped", broken=True)


class Disk:
    """Records what is synced. data: lengths of files; names: contents of folders."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.data: list[int] = []
        self.names: list[set[str]] = []
        self.refuses = False
        for name, real in (("fsync", os.fsync), ("fdatasync", os.fdatasync)):
            patch.setattr(os, name, functools.partial(self._synced, real))

    def _synced(self, real: Callable[[int], None], fd: int) -> None:
        if self.refuses:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self.names.append({path.name for path in Path(f"/proc/self/fd/{fd}").iterdir()})
        else:
            self.data.append(os.fstat(fd).st_size)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Record every sync from here on."""
    return Disk(monkeypatch)


def test_every_record_is_synced_before_append_returns(tmp_path: Path, disk: Disk) -> None:
    """As are the file's first bytes, its name, and the cut of a torn end."""
    path = tmp_path / "j"
    with Journal(path) as opened:
        assert disk.data[0] == len(MAGIC)
        assert "j" in disk.names[0]
        for _ in range(3):
            seen = len(disk.data)
            opened.append(RECORD)
            assert disk.data[seen:] == [path.stat().st_size]
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn")
    disk.data.clear()
    with Journal(path):
        assert disk.data == [whole]


def test_after_a_failed_sync_nothing_more_is_written(tmp_path: Path, disk: Disk) -> None:
    """The kernel may have dropped the data, so a second sync proves nothing."""
    path = tmp_path / "j"
    with Journal(path) as opened:
        disk.refuses = True
        with pytest.raises(StorageError, match="Input/output error"):
            opened.append(RECORD)
        left = path.read_bytes()
        disk.refuses = False
        assert opened.last_word(LAST) is False
        with pytest.raises(StorageError, match="earlier write failed"):
            opened.append(RECORD)
        assert path.read_bytes() == left


def test_last_words_are_synced_and_are_the_last(tmp_path: Path, disk: Disk) -> None:
    """They replace a record that was cut short."""
    path = tmp_path / "j"
    with Journal(path) as opened:
        opened.append(RECORD)
        assert opened.last_word(LAST) is True
        assert disk.data[-1] == path.stat().st_size
        with pytest.raises(StorageError, match="earlier write failed"):
            opened.append(RECORD)
    assert journal.read(path) == (RECORD, LAST)


def test_a_result_is_synced_before_its_end_is_written(tmp_path: Path, disk: Disk) -> None:
    """An End guarantees its result after a power cut."""
    with conducting(tmp_path / "run", gpus(1)) as held:
        (live,) = held.live.values()
        disk.data.clear()
        disk.names.clear()
        outcome = result(live.next.cell)
        end = held.conductor.recorder.ended(live, outcome)
        data = live.paths.result.read_bytes()
        assert (data, end.result_sha256) == (codec.encode(outcome), hashlib.sha256(data).hexdigest())
        assert disk.data == [len(data), held.paths.journal.stat().st_size]
        assert live.paths.result.name in disk.names[-1]


def test_a_file_is_synced_before_its_name(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash must not leave a name without its contents."""
    path = tmp_path / "result"
    synced_at_the_move: list[list[int]] = []
    rename = Path.rename

    def move(source: Path, into: Path) -> object:
        synced_at_the_move.append(list(disk.data))
        return rename(source, into)

    journal.write_durably(path, b"12345", move=move)
    assert synced_at_the_move == [[5]]
    assert disk.names == [{"result"}]
