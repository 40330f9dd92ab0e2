"""orchestrator/store/journal.py: appended records are never lost, damaged ones never believed."""

import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.errors import RunFolderError, StorageError
from orchestrator.store import journal
from orchestrator.store.journal import MAGIC, Journal
from orchestrator.store.journal_records import End, Record, Start


def start(launch: int) -> Start:
    """A record."""
    return Start(launch=launch, cell="c", round=0, attempt=1, batch_size=8, device="cpu:0", at_ns=launch)


def written(path: Path, count: int) -> list[Record]:
    """A journal of `count` records."""
    records: list[Record] = [start(number) for number in range(count)]
    with Journal(path) as open_journal:
        for record in records:
            open_journal.append(record)
    return records


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    """A second writer continues, also after a kill within the first line."""
    path = tmp_path / "j"
    path.write_bytes(MAGIC[:5])
    records = written(path, 3)
    assert list(journal.read(path)) == records
    with Journal(path) as again:
        assert list(again.recovered) == records
        again.append(End(launch=2, at_ns=9, result_sha256="ab"))
    assert len(journal.read(path)) == 4


@given(cut=st.integers(min_value=0), junk=st.binary(max_size=40))
def test_a_torn_tail_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes) -> None:
    """For any tear, all earlier records survive and writing continues."""
    path = tmp_path_factory.mktemp("journal") / "j"
    records = written(path, 3)
    whole = path.read_bytes()
    last = len(whole) - _length_of_last(path)
    torn = whole[: last + cut % (len(whole) - last)] + junk
    assume(not torn.startswith(whole))  # by chance the junk is what was cut off
    path.write_bytes(torn)
    with Journal(path) as recovered:
        assert list(recovered.recovered) == records[:2]
        recovered.append(start(7))
    assert list(journal.read(path)) == [*records[:2], start(7)]


@given(position=st.floats(min_value=0, max_value=1, exclude_max=True), flip=st.integers(min_value=1, max_value=255))
def test_damage_in_the_middle_is_an_error(tmp_path_factory: pytest.TempPathFactory, position: float, flip: int) -> None:
    """Records behind a changed byte are never dropped silently."""
    path = tmp_path_factory.mktemp("journal") / "j"
    written(path, 4)
    data = bytearray(path.read_bytes())
    sound = len(data) - _length_of_last(path)
    offset = len(MAGIC) + int(position * (sound - len(MAGIC)))
    data[offset] ^= flip
    path.write_bytes(data)
    with pytest.raises(RunFolderError, match="damaged"):
        journal.read(path)


@pytest.mark.parametrize("position", [1, 2, 3])
def test_inserted_bytes_are_an_error(tmp_path: Path, position: int) -> None:
    """An intact record behind foreign bytes is no torn end."""
    path = tmp_path / "j"
    written(path, 4)
    data, length = path.read_bytes(), _length_of_last(path)
    at = len(MAGIC) + position * length
    path.write_bytes(data[:at] + b"\0\0\0" + data[at:])
    with pytest.raises(RunFolderError, match=f"record {position} is unreadable"):
        journal.read(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    """With their path."""
    path = tmp_path / "j"
    with pytest.raises(RunFolderError, match="cannot be read"):
        journal.read(path)
    path.write_text("something else entirely, and long enough")
    with pytest.raises(RunFolderError, match="not a journal"):
        journal.read(path)
    with pytest.raises(RunFolderError, match="not a journal"):
        Journal(path)


def test_a_full_disk_ends_the_journal(tmp_path: Path) -> None:
    """This and every later append fail."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("/dev/full is missing")
    path = tmp_path / "j"
    with Journal(path) as open_journal:
        os.dup2(os.open(full, os.O_RDWR), open_journal._fd)
        with pytest.raises(StorageError, match="No space left"):
            open_journal.append(start(1))
        with pytest.raises(StorageError, match="earlier write failed"):
            open_journal.append(start(2))


@pytest.mark.parametrize("where", ["missing/report", "file/report", "long" * 64])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, where: str) -> None:
    """Nothing is left behind."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=where):
        journal.write_durably(tmp_path / where, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _length_of_last(path: Path) -> int:
    """Bytes of the last record; all records here have one length."""
    return (path.stat().st_size - len(MAGIC)) // len(journal.read(path))
