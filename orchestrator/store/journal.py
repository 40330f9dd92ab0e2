"""The journal: what a run must not forget, in a file that only ever grows.

    file    MAGIC, then records
    record  length (u32)  CRC of the body (u32)  sequence number (u64)  CRC of these three (u32)  │  body, MessagePack

One writer. Each record is on the disk before `append` returns. A record that was being written when the machine died is
cut off when the file is opened again; damage anywhere else is an error, never skipped. While the file is open, room on
the disk is kept beside it (reserve.py), so that a full disk has place for `last_word`.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from orchestrator.errors import RunFolderError, StorageError
from orchestrator.store import damage
from orchestrator.store.records import Record
from orchestrator.store.reserve import Reserve
from orchestrator.system import safe_read
from protocol import codec
from protocol.errors import ProtocolError

_RECORD: Final = codec.Decoder[Record](Record)
MAGIC: Final = b"gpubench journal 1\n"
_HEADER: Final = struct.Struct("<IIQ")
_HEADER_CRC: Final = struct.Struct("<I")
_PREFIX: Final = _HEADER.size + _HEADER_CRC.size


class Journal:
    """The writer. Opening recovers: the records that are there are in `recovered`, a torn last one is cut off."""

    def __init__(self, path: Path) -> None:
        """Open or make the journal at `path`.

        Raises RunFolderError for a file that is not a journal, is larger than any (safe_read.py) or is damaged
        before its end, StorageError when the disk refuses.
        """
        fresh = not path.exists()
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"{path}: cannot be opened: {error.strerror}") from error
        try:
            self.recovered, whole = _scan(_contents(path), path)
            self._sequence = len(self.recovered)
            self._whole = whole
            self._synced = True
            self._repair(whole, fresh=fresh)
            self._reserve = self._kept()
        except BaseException:
            os.close(self._fd)
            raise
        self._broken = False

    def append(self, record: Record) -> None:
        """Write one record and wait until it is on the disk.

        Raises StorageError when that fails; what the disk then holds is unknown, so every later call fails too.
        """
        if self._broken:
            raise StorageError(f"{self._path}: an earlier write failed; nothing more can be recorded")
        self._write(_framed(record, self._sequence))
        self._sequence += 1

    def require_room(self) -> None:
        """Make sure that the disk is not full. Raises StorageError."""
        try:
            self._reserve.require_more()
        except OSError as error:
            raise StorageError(f"{self._path.parent}: cannot be written: {error.strerror}") from error

    def last_word(self, record: Record) -> bool:
        """Write a record where no other can be written any more, in the room that was kept. Says whether it is there.

        A record that was cut short goes; one whose sync has failed stays as it may be, and nothing is written after it.
        """
        self._reserve.give_up()
        if not self._synced:
            return False
        try:
            os.ftruncate(self._fd, self._whole)
            self._write(_framed(record, self._sequence))
        except (OSError, StorageError):
            return False
        finally:
            self._broken = True
        return True

    def close(self) -> None:
        """Give the file back."""
        self._reserve.give_up()
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _kept(self) -> Reserve:
        path = self._path.with_suffix(".reserve")
        try:
            return Reserve(path)
        except OSError as error:
            raise StorageError(f"{path}: no room can be kept for the run's last words: {error.strerror}") from error

    def _repair(self, whole: int, *, fresh: bool) -> None:
        """Cut a torn tail off, or begin a new file and make its name durable too."""
        try:
            os.ftruncate(self._fd, whole)
            if whole == 0:
                self._write(MAGIC)
            os.fdatasync(self._fd)
            if fresh:
                sync_folder(self._path.parent)
        except OSError as error:
            raise StorageError(f"{self._path}: cannot be written: {error.strerror}") from error

    def _write(self, data: bytes) -> None:
        """Write all of `data`: a full disk first shows as a short write without an error."""
        self._broken = True
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            self._synced = False
            os.fdatasync(self._fd)
            self._synced = True
        except OSError as error:
            raise StorageError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._whole += len(data)
        self._broken = False


def _framed(record: Record, sequence: int) -> bytes:
    """A record as it lies in the file."""
    body = codec.encode(record)
    header = _HEADER.pack(len(body), zlib.crc32(body), sequence)
    return header + _HEADER_CRC.pack(zlib.crc32(header)) + body


def read(path: Path) -> tuple[Record, ...]:
    """The records of the journal at `path`, also while a run is still writing it.

    Raises RunFolderError when there is none, it is not a journal, is larger than any (safe_read.py), or is damaged
    before its end.
    """
    return _scan(_contents(path), path)[0]


def length(path: Path) -> int:
    """How many bytes the journal at `path` has; it only ever grows. 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path: Path, data: bytes, move: Callable[[Path, Path], object] = Path.rename) -> None:
    """Put `data` at `path` whole or not at all: a temporary name, synced, renamed, the folder synced.

    move: renames the first path to the second, in another way than replacing what is there. Raises StorageError when
    the disk refuses.
    """
    write_parts_durably(path, (data,), move)


def write_parts_durably(path: Path, parts: Iterable[bytes], move: Callable[[Path, Path], object] = Path.rename) -> None:
    """The same with what is made while it is written, so that there is never all of it in memory.

    Whatever ends the making of them ends this too, and leaves no file.
    """
    unfinished = temporary(path, os.getpid())
    try:
        with unfinished.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        move(unfinished, path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):  # what could not be made cannot be removed either, as on a read-only mount
            unfinished.unlink()
        if isinstance(error, OSError):
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def temporary(path: Path, pid: int) -> Path:
    """The name under which a process writes what is to be at `path`."""
    return path.with_name(f".{path.name}.{pid}.tmp")


def _contents(path: Path) -> bytes:
    try:
        return safe_read.read(path)
    except OSError as error:
        raise RunFolderError(f"{path}: the journal cannot be read: {error.strerror}. {damage.advice(path)}") from error


def _scan(data: bytes, path: Path) -> tuple[tuple[Record, ...], int]:
    """The whole records in `data`, and the length up to which it is sound."""
    if not data.startswith(MAGIC):
        if MAGIC.startswith(data):
            return (), 0
        raise RunFolderError(f"{path}: not a journal of gpubench. {damage.advice(path)}")
    records: list[Record] = []
    offset = len(MAGIC)
    while offset < len(data):
        body = _body_at(data, offset, len(records))
        if body is None:
            if _later_record(data, offset + 1, len(records)):
                raise RunFolderError(
                    f"{path}: damaged at byte {offset}: record {len(records)} is unreadable, but more follows. "
                    f"{damage.advice(path)}"
                )
            break
        try:
            records.append(_RECORD.decode(body))
        except ProtocolError as error:
            raise RunFolderError(
                f"{path}: record {len(records)} is of an unknown kind: {error}. If another version of gpubench wrote "
                f"it, use that one. {damage.advice(path)}"
            ) from error
        offset += _PREFIX + len(body)
    return tuple(records), offset


def _body_at(data: bytes, offset: int, sequence: int) -> bytes | None:
    """The body of the record at `offset`, or None when it is not whole, not sound or not the one expected."""
    header = data[offset : offset + _HEADER.size]
    check = data[offset + _HEADER.size : offset + _PREFIX]
    if len(check) < _HEADER_CRC.size or _HEADER_CRC.unpack(check)[0] != zlib.crc32(header):
        return None
    length, crc, found = _HEADER.unpack(header)
    body = data[offset + _PREFIX : offset + _PREFIX + length]
    if found != sequence or len(body) < length or zlib.crc32(body) != crc:
        return None
    return body


def _later_record(data: bytes, start: int, sequence: int) -> bool:
    """Whether a sound header of this record or a later one stands behind `start`: then damage is not a torn tail."""
    for offset in range(start, len(data) - _PREFIX + 1):
        header = data[offset : offset + _HEADER.size]
        (check,) = _HEADER_CRC.unpack_from(data, offset + _HEADER.size)
        if check == zlib.crc32(header) and _HEADER.unpack(header)[2] >= sequence:
            return True
    return False
