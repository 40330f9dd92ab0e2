"""Open the history file as a valid database of this version.

    missing ──────────────────────────▶ writers create it; readers find none
    of an older version ──────────────▶ migrated in one transaction
    newer, or of another program ─────▶ refused, untouched
    damaged, at the default path or
    with the header of a history ─────▶ writers move it aside and create another (damaged_file.py); readers refuse
    damaged otherwise ────────────────▶ refused, untouched

Processes wait for each other up to BUSY_S. Commits are durable. On a local disk SQLite uses a write-ahead log, on a
remote one a rollback journal: a write-ahead log needs memory shared by all processes, which a network file system
lacks.
"""

import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import psutil

from orchestrator.errors import HistoryError
from orchestrator.history import damaged_file
from orchestrator.history.location import Place
from orchestrator.history.migrations import APPLICATION_ID, MIGRATIONS

BUSY_S: Final = 10.0
CHECKED_BYTES: Final = 100 * 2**20
"""Largest file that is checked for damage before writing, which takes 0.2 s, over a network 1 to 2 s."""
_LONGEST: Final = 80
_NONE_OF_OURS: Final = "{path}: not a history of gpubench, so it was not changed. Name another file."
_CLOSED: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_ID_AT: Final = 68
"""Offset of application_id in the header of a database (https://www.sqlite.org/fileformat.html, 1.3)."""
_TRIES: Final = 3
_LOCAL_DISKS: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "overlay", "ramfs", "reiserfs", "tmpfs"}
    | {"ufs", "xfs", "zfs"}
)
"""File systems of local disks. All others (nfs, cifs, lustre, fuse.sshfs, 9p) are treated as remote."""


class DamagedError(HistoryError):
    """The history file is no valid database."""


@contextmanager
def writing(place: Place, notes: list[str] | None = None) -> Iterator[sqlite3.Connection]:
    """Open the history for writing in a `with` block, and create it if it is missing.

    Each statement commits by itself unless it is in a `transaction`. notes: a message is appended if a damaged file was
    moved aside. Raises HistoryError if the file cannot be used, or is found damaged in the block. Any OSError of
    the block becomes a HistoryError, too.
    """
    path = _real(place.path)
    messages = [] if notes is None else notes
    with _as_user_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with closing(_whole(path, place, messages, CHECKED_BYTES)) as connection, _damage_named(path):
                yield connection
        except DamagedError:  # a file too large to check beforehand: move it aside for the next run
            _whole(path, place, messages, math.inf).close()
            raise


@contextmanager
def reading(place: Place) -> Iterator[sqlite3.Connection | None]:
    """Open the history for reading in a `with` block. The connection is None if there is no history.

    A history of an older version is migrated first, and an empty file becomes a history. Raises HistoryError if the
    file cannot be used or is damaged. Any OSError of the block becomes a HistoryError, too.
    """
    path = _real(place.path)
    with _as_user_errors(path):
        if not path.exists():
            yield None
            return
        may_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        try:
            with closing(_open(path) if may_write else _open_as_is(path)) as connection, _damage_named(path):
                connection.execute("PRAGMA query_only = ON")
                yield connection
        except DamagedError as error:
            if not _ours(path, place):
                raise HistoryError(_NONE_OF_OURS.format(path=path)) from error
            raise HistoryError(f"{error}. The next recorded run moves it aside and starts a new history.") from error


def refusal(place: Place) -> str:
    """Return why runs cannot be recorded here; "" if they can, or if the file is missing. Writes nothing.

    Reasons: a file of another program or newer version, or an unreadable one. A missing permission to write is not
    noticed. Damage is no reason if writers may move the file aside and create another: at the default path, or if its
    header is that of a history.
    """
    path = _real(place.path)
    try:
        with _as_user_errors(path):
            if path.exists():
                with closing(_as_it_is(path)) as connection, _damage_named(path):
                    _require_ours(connection, path)
    except DamagedError:
        return "" if _ours(path, place) else _NONE_OF_OURS.format(path=path)
    except HistoryError as error:
        return str(error)
    return ""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the body of a `with` block in a transaction, then commit; roll back on an error. Other writers wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # a disk that is full has rolled back itself
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Bring the database to the newest schema, if it is older, in one transaction that is committed at the end.

    An error leaves it unchanged. The connection must not be in a transaction. migrations: statements of each version.
    """
    if _number(connection, "PRAGMA user_version") == len(migrations):
        return
    with transaction(connection):
        for step in migrations[_number(connection, "PRAGMA user_version") :]:
            for statement in step:
                connection.execute(statement)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _whole(path: Path, place: Place, notes: list[str], checked_bytes: float) -> sqlite3.Connection:
    for _ in range(_TRIES):
        seen = path.stat().st_ino if path.exists() else None
        try:
            return _open(path, checked_bytes)
        except DamagedError as error:
            if not _ours(path, place):
                raise HistoryError(_NONE_OF_OURS.format(path=path)) from error
            moved = damaged_file.move(path, seen)
            if moved is not None:
                notes.append(f"{error}. It was moved to {moved.name}, and a new history was started")
    raise HistoryError(f"{path}: was found damaged {_TRIES} times in a row. Check the disk")


def _open(path: Path, checked_bytes: float = 0) -> sqlite3.Connection:
    """Open a history for writing; create or migrate it if needed.

    checked_bytes: a file of at most this size is first checked for damage in its whole content.
    """
    connection = _connect(path, "rwc")
    try:
        with _damage_named(path):
            _require_ours(connection, path)
            if path.stat().st_size <= checked_bytes:
                _require_whole(connection, path)
            _journal(connection, path)
            migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_as_is(path: Path) -> sqlite3.Connection:
    connection = _as_it_is(path)
    try:
        with _damage_named(path):
            _require_ours(connection, path)
        version = _number(connection, "PRAGMA user_version")
        if version != len(MIGRATIONS):
            raise HistoryError(
                f"{path}: a history of version {version}, which must be migrated to version {len(MIGRATIONS)}, "
                "but cannot be written. Copy it to a folder of yours and name the copy with --history-db."
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _as_it_is(path: Path) -> sqlite3.Connection:
    log = path.with_name(f"{path.name}-wal")
    # Without its log, which cannot be made here, SQLite opens the file only as immutable.
    return _connect(path, "ro" if log.exists() else "ro&immutable=1")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=BUSY_S)


def _require_ours(connection: sqlite3.Connection, path: Path) -> None:
    for setting in ("foreign_keys = ON", "synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    application, version = _number(connection, "PRAGMA application_id"), _number(connection, "PRAGMA user_version")
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    if (application, version, tables) == (0, 0, 0):
        return
    if application != APPLICATION_ID or version < 1:
        raise HistoryError(f"{path}: a database of another program, so it was not changed. Name another file.")
    if version > len(MIGRATIONS):
        raise HistoryError(
            f"{path}: a history of version {version}, written by a newer gpubench. This one reads "
            f"versions up to {len(MIGRATIONS)}. Use the newer one, or name another file with --history-db."
        )


def _require_whole(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise DamagedError(f"{path}: the history is damaged ({found.splitlines()[-1]})")


def is_local(path: Path) -> bool:
    """Whether `path` is on a local disk; False if its file system is unknown. path: absolute, without symlinks."""
    mounts = psutil.disk_partitions(all=True)
    types = [mount.fstype for mount in mounts if path.is_relative_to(mount.mountpoint)]
    return bool(types) and types[-1] in _LOCAL_DISKS  # in the order of mounting: the last one hides the others


def _journal(connection: sqlite3.Connection, path: Path) -> None:
    wanted = "wal" if is_local(path) else "delete"
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == wanted:
        return
    try:
        connection.execute(f"PRAGMA journal_mode = {wanted}")
    except sqlite3.OperationalError:
        if wanted != "wal":
            raise
        # Another process uses it now. Either journal is safe, and the next process tries again.


def _number(connection: sqlite3.Connection, question: str) -> int:
    return int(connection.execute(question).fetchone()[0])


def _ours(path: Path, place: Place) -> bool:
    """Whether a damaged file may be moved aside: its path is the default, or its header is that of a history."""
    if place.default:
        return True
    with suppress(OSError), path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        return header.startswith(_MAGIC) and header[_ID_AT : _ID_AT + 4] == APPLICATION_ID.to_bytes(4, "big")
    return False


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
            raise DamagedError(f"{path}: the history is damaged ({error})") from error
        raise
    except UnicodeDecodeError as error:  # SQLite quotes the damaged schema, which is no longer text
        raise DamagedError(f"{path}: the history is damaged ({error.object[:_LONGEST]!r})") from error


@contextmanager
def _as_user_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        closed = getattr(error, "sqlite_errorcode", 0) & 0xFF in _CLOSED
        why = ". You need permission to write the file and its folder" if closed else ""
        raise HistoryError(f"{path}: the history cannot be used: {error}{why}") from error
    except OSError as error:
        raise HistoryError(f"{path}: the history cannot be used: {error.strerror}") from error
    except UnicodeEncodeError as error:  # a byte of the command line that was no text stands for itself
        raise HistoryError(f"{path}: the history stores only UTF-8, not {error.object[:_LONGEST]!r}") from error
    except msgspec.MsgspecError as error:
        raise HistoryError(f"{path}: the history has content that this gpubench has not written: {error}") from error
