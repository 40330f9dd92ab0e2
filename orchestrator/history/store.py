"""Opens the history's file, so that whoever reads or writes finds a whole database of this version, and no other.

    nothing there ─────────▶ writers make one; readers find none
    ours, older ───────────▶ brought up to date, in one transaction
    ours, newer ───────────▶ refused, untouched
    another program's ─────▶ refused, untouched
    damaged ───────────────▶ writers set it aside and make another (damaged_file.py); readers refuse

Several processes may do all of this at once: each waits for the other up to BUSY_S. What is committed is on the disk.
On a local disk the database has a write-ahead log, elsewhere a rollback journal (mounts.py).
"""

import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.errors import HistoryError
from orchestrator.history import damaged_file, mounts
from orchestrator.history.location import Place
from orchestrator.history.migrations import APPLICATION_ID, MIGRATIONS

BUSY_S: Final = 10.0
CHECKED_BYTES: Final = 100 * 2**20
"""Up to this size all of it is checked before it is written: a fifth of a second, a second or two over a network."""
_LONGEST: Final = 80
"""Characters of a text that is quoted in a message."""
_NONE_OF_OURS: Final = "{path}: no history of gpubench, nor another database: left as it is. Name another file."
_CLOSED: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_ID_AT: Final = 68
"""Where application_id is in the header of a database (https://www.sqlite.org/fileformat.html, 1.3)."""
_TRIES: Final = 3


class DamagedError(HistoryError):
    """The file is no whole database."""


@contextmanager
def writing(place: Place, notes: list[str] | None = None) -> Iterator[sqlite3.Connection]:
    """The history, made where there is none. notes: gets a sentence where a damaged one was set aside.

    Raises HistoryError.
    """
    path = _real(place.path)
    told = [] if notes is None else notes
    with _told(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with closing(_whole(path, place, told, CHECKED_BYTES)) as connection, _damage_named(path):
                yield connection
        except DamagedError:  # in one too large to be checked each time: set aside now, for the next one
            _whole(path, place, told, math.inf).close()
            raise


@contextmanager
def reading(place: Place) -> Iterator[sqlite3.Connection | None]:
    """The history, to be read; None where there is none yet. Raises HistoryError, also for a damaged one."""
    path = _real(place.path)
    with _told(path):
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
            raise HistoryError(f"{error}. The next run that is recorded sets it aside and begins another.") from error


def refusal(place: Place) -> str:
    """Why no run could be recorded there: another program's file, or a history of a newer version. Writes nothing.

    Empty where that is not so: what else may go wrong is seen by who writes.
    """
    path = _real(place.path)
    try:
        with _told(path):
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
    """All of it or nothing: also for a process that is killed in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # a disk that is full has rolled back itself
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Bring the database up to date. Whoever was quicker has done it for all."""
    if _number(connection, "PRAGMA user_version") == len(migrations):
        return
    with transaction(connection):
        for step in migrations[_number(connection, "PRAGMA user_version") :]:
            for statement in step:
                connection.execute(statement)


def _real(path: Path) -> Path:
    """The file itself: SQLite keeps its log beside it, and not beside a link to it."""
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
                notes.append(f"{error}. It was set aside as {moved.name}, and a new history begun")
    raise HistoryError(f"{path}: was found damaged {_TRIES} times, although it was set aside; look at the disk")


def _open(path: Path, checked_bytes: float = 0) -> sqlite3.Connection:
    """A connection that may write. Raises DamagedError, HistoryError for what is refused.

    checked_bytes: up to which size all of the file is looked at; damage elsewhere is found by whoever comes across it.
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
    """A connection to a file, or in a folder, that we may not write; nothing is made or brought up to date."""
    connection = _as_it_is(path)
    try:
        with _damage_named(path):
            _require_ours(connection, path)
        version = _number(connection, "PRAGMA user_version")
        if version != len(MIGRATIONS):
            raise HistoryError(
                f"{path}: a history of version {version}, which cannot be brought up to version {len(MIGRATIONS)} "
                "where it may not be written. Copy it to a folder of yours and name the copy with --history-db."
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _as_it_is(path: Path) -> sqlite3.Connection:
    log = path.with_name(f"{path.name}-wal")
    # Without its log, which nobody can make here either, SQLite opens the file only when told that it stays as it is.
    return _connect(path, "ro" if log.exists() else "ro&immutable=1")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=BUSY_S)


def _require_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raises HistoryError for another program's database and for a newer version, DamagedError for a broken one."""
    for setting in ("foreign_keys = ON", "synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    application, version = _number(connection, "PRAGMA application_id"), _number(connection, "PRAGMA user_version")
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    if (application, version, tables) == (0, 0, 0):
        return
    if application != APPLICATION_ID or version < 1:
        raise HistoryError(f"{path}: the database of another program: left as it is. Name another file.")
    if version > len(MIGRATIONS):
        raise HistoryError(
            f"{path}: a history of version {version}, written by a newer gpubench; this one knows version "
            f"{len(MIGRATIONS)}. Nothing was touched: use the newer one, or name another file with --history-db."
        )


def _require_whole(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise DamagedError(f"{path}: the history is damaged ({found.splitlines()[-1]})")


def _journal(connection: sqlite3.Connection, path: Path) -> None:
    """A write-ahead log on local disks alone."""
    known = mounts.MOUNTS.read_text(encoding="utf-8", errors="surrogateescape") if mounts.MOUNTS.exists() else ""
    wanted = "wal" if mounts.is_local(path, known) else "delete"
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == wanted:
        return
    try:
        connection.execute(f"PRAGMA journal_mode = {wanted}")
    except sqlite3.OperationalError:
        if wanted != "wal":
            raise
        # Somebody else uses it at this moment: with either journal it is safe here, and the next one asks again.


def _number(connection: sqlite3.Connection, question: str) -> int:
    return int(connection.execute(question).fetchone()[0])


def _ours(path: Path, place: Place) -> bool:
    """Whether a damaged file is ours to set aside: nobody named it, or it says so itself."""
    return place.default or _says_ours(path)


def _says_ours(path: Path) -> bool:
    """Whether the header of a damaged file says that it was a history."""
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
    except UnicodeDecodeError as error:  # SQLite quotes the schema in what it says, and that is no text any more
        raise DamagedError(f"{path}: the history is damaged ({error.object[:_LONGEST]!r})") from error


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever SQLite and the disk refuse, as words."""
    try:
        yield
    except sqlite3.Error as error:
        closed = getattr(error, "sqlite_errorcode", 0) & 0xFF in _CLOSED
        why = "; it and the folder that it lies in have to be open to you for this, also for writing" if closed else ""
        raise HistoryError(f"{path}: the history cannot be used: {error}{why}") from error
    except OSError as error:
        raise HistoryError(f"{path}: the history cannot be used: {error.strerror}") from error
    except UnicodeEncodeError as error:  # a byte of the command line that was no text stands for itself
        raise HistoryError(f"{path}: the history has UTF-8 alone, and no {error.object[:_LONGEST]!r}") from error
    except msgspec.MsgspecError as error:
        raise HistoryError(f"{path}: the history holds what this gpubench has not written: {error}") from error
