"""The journal: an append-only file of everything about a run that must survive the end of the process.

    file    MAGIC, then records
    record  length (u32)  CRC of the body (u32)  sequence number (u64)  CRC of these three (u32)  │  body, MessagePack

Each record is on disk before `append` returns. Opening cuts off what follows the last intact record. Damage before an
intact record is an error.
Reserved space (reserve.py) lets `last_word` write a record on a full disk.
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
from orchestrator.store.journal_records import Record
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
    """Writes a journal, as its only writer. recovered: the intact records that were in the file on opening."""

    def __init__(self, path: Path) -> None:
        """Open the journal at `path`, or make it, in an existing folder. Cut off an incomplete or damaged last record.

        Raises RunFolderError if the file is damaged or no journal, StorageError if it cannot be opened or written.
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
        """Write one record and wait until it is on disk. Raises StorageError if that fails, and in every later call."""
        if self._broken:
            raise StorageError(f"{self._path}: an earlier write failed; nothing more can be recorded")
        self._write(_framed(record, self._sequence))
        self._sequence += 1

    def require_room(self) -> None:
        """Raise StorageError if the disk has no free space besides the journal's reserve."""
        try:
            self._reserve.require_more()
        except OSError as error:
            raise StorageError(f"{self._path.parent}: cannot be written: {error.strerror}") from error

    def last_word(self, record: Record) -> bool:
        """Write the last record of a process, even on a full disk or after a failed `append`. Return True if on disk.

        Never raises for a failed write. Every later `append` raises StorageError.
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
        """Close the file and remove its reserved space."""
        self._reserve.give_up()
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _kept(self) -> Reserve:
        path = reserve_of(self._path)
        try:
            return Reserve(path)
        except OSError as error:
            raise StorageError(
                f"{path}: disk space cannot be reserved for the last record: {error.strerror}"
            ) from error

    def _repair(self, whole: int, *, fresh: bool) -> None:
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
    body = codec.encode(record)
    header = _HEADER.pack(len(body), zlib.crc32(body), sequence)
    return header + _HEADER_CRC.pack(zlib.crc32(header)) + body


def read(path: Path) -> tuple[Record, ...]:
    """Read a journal's records, even during a run. An incomplete or damaged last record is ignored.

    Raises RunFolderError if the file is missing, unreadable or damaged elsewhere.
    """
    return _scan(_contents(path), path)[0]


def reserve_of(path: Path) -> Path:
    """Return the path of the file that reserves disk space for the journal at `path`."""
    return path.with_suffix(".reserve")


def length(path: Path) -> int:
    """Return the size of the journal file `path` in bytes; 0 if it is missing or cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def sync_folder(folder: Path) -> None:
    """Make new and renamed files in `folder` survive a power failure (fsync). Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path: Path, data: bytes, move: Callable[[Path, Path], object] = Path.rename) -> None:
    """Write `data` to `path`, whole or not at all, in place of an existing file. Raises StorageError if that fails.

    A temporary file in the same folder is written, synced and then renamed by move(temporary file, path).
    """
    write_parts_durably(path, (data,), move)


def write_parts_durably(path: Path, parts: Iterable[bytes], move: Callable[[Path, Path], object] = Path.rename) -> None:
    """Write `parts` one after the other to `path`, as `write_durably` does. Exceptions from the iterator pass through.

    Each part is written when the iterator yields it. An OSError, of the iterator too, is raised as StorageError. move:
    called as move(temporary file, path).
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
        with suppress(OSError):  # a read-only mount
            unfinished.unlink()
        if isinstance(error, OSError):
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def temporary(path: Path, pid: int) -> Path:
    """Return the path of the temporary file that process `pid` renames to `path` once it is whole."""
    return path.with_name(f".{path.name}.{pid}.tmp")


def _contents(path: Path) -> bytes:
    try:
        return safe_read.read(path)
    except OSError as error:
        raise RunFolderError(f"{path}: the journal cannot be read: {error.strerror}. {damage.advice(path)}") from error


def _scan(data: bytes, path: Path) -> tuple[tuple[Record, ...], int]:
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
                    f"{path}: damaged at byte {offset}: record {len(records)} is unreadable, but others follow. "
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
    """Return the body of the record at `offset`; None if it is damaged or has another sequence number.

    data: the whole journal file.
    """
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
    """Whether record `sequence` or a later one has an intact header at or after `start`, so damage is not at the end.

    data: the whole journal file. start: offset in it.
    """
    for offset in range(start, len(data) - _PREFIX + 1):
        header = data[offset : offset + _HEADER.size]
        (check,) = _HEADER_CRC.unpack_from(data, offset + _HEADER.size)
        if check == zlib.crc32(header) and _HEADER.unpack(header)[2] >= sequence:
            return True
    return False
