"""history/store.py with real files: versions, who may not write, kinds of journal, and kills."""

import errno
import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.errors import HistoryError
from orchestrator.history import queries, store, updates
from orchestrator.history.migrations import APPLICATION_ID, MIGRATIONS
from tests.fakes.histories import UUID, altered, child, kept, place, record, run_id, runs

VERSION_1 = f"""
CREATE TABLE runs (run_id TEXT PRIMARY KEY NOT NULL, test_date TEXT NOT NULL, folder TEXT NOT NULL,
    hostname TEXT NOT NULL, profile TEXT NOT NULL, seconds REAL NOT NULL, verdict TEXT NOT NULL,
    exit_code INTEGER NOT NULL, finished INTEGER NOT NULL, tainted INTEGER NOT NULL, health TEXT NOT NULL,
    planned INTEGER NOT NULL, ok INTEGER NOT NULL, stack TEXT NOT NULL);
CREATE TABLE devices (run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, gpu_uuid TEXT NOT NULL,
    label TEXT NOT NULL, gpu_name TEXT NOT NULL, kind TEXT NOT NULL, facts TEXT NOT NULL, health TEXT NOT NULL,
    health_words TEXT NOT NULL, PRIMARY KEY (run_id, gpu_uuid));
CREATE TABLE cells (run_id TEXT NOT NULL, gpu_uuid TEXT NOT NULL, model_name TEXT NOT NULL, phase TEXT NOT NULL,
    precision TEXT NOT NULL, batch_size INTEGER NOT NULL, cell_key TEXT NOT NULL, status TEXT NOT NULL,
    doubt TEXT NOT NULL, metric TEXT NOT NULL, launches TEXT NOT NULL, figures TEXT NOT NULL,
    FOREIGN KEY (run_id, gpu_uuid) REFERENCES devices (run_id, gpu_uuid) ON DELETE CASCADE);
INSERT INTO runs VALUES ('20250101-000000-aaaaaa', '2025-01-01T00:00:00Z', '/runs/a', 'node-01', 'quick', 1.5,
    'complete', 0, 1, 0, 'PASS', 1, 1, '{{"driver": "550"}}');
INSERT INTO devices VALUES ('20250101-000000-aaaaaa', '{UUID}', 'GPU 0', 'NVIDIA H200', 'cuda',
    '{{"gpu_uuid": "{UUID}", "label": "GPU 0", "gpu_name": "NVIDIA H200", "kind": "cuda", "memory_mb": null,
    "power_limit_w": 700, "stack": {{}}}}', 'FAIL', 'rows failed');
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 1;
"""


def test_what_is_recorded_is_read_again(tmp_path: Path) -> None:
    """All of it, value by value; the file is whole, and nothing is left beside it."""
    made = [record(1), record(2, health="WARN", health_words="hot", burn_in="FAIL", burn_in_words="wrong bits")]
    where = kept(tmp_path / "deep" / "down", made)
    with store.reading(where) as connection:
        assert [queries.run(connection, run_id(number)) for number in (1, 2)] == made
    assert [path.name for path in where.path.parent.iterdir()] == ["history.db"]


def test_a_run_that_is_recorded_again_is_there_once(tmp_path: Path) -> None:
    """With what was said last, and without what belonged to the first: `resume` and `report` go on with one entry."""
    where = kept(tmp_path, [record(1, verdict="incomplete"), record(2), record(1)])
    with closing(sqlite3.connect(where.path)) as connection:
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("runs", "cells")]
        words = connection.execute("SELECT verdict FROM runs WHERE run_id = ?", (run_id(1),)).fetchone()
    assert (counts, words) == ([2, 2], ("complete",))


def test_removed_runs_leave_nothing_behind(tmp_path: Path) -> None:
    """Their devices and cells go with them, their space goes back to the disk; the others stay."""
    where = kept(tmp_path, [record(number, stack={"much": "x" * 100_000}) for number in range(1, 10)])
    before = where.path.stat().st_size
    with store.writing(where) as connection:
        updates.remove(connection, [run_id(number) for number in range(1, 9)])
    assert where.path.stat().st_size < before / 4
    with closing(sqlite3.connect(where.path)) as connection:
        found = [connection.execute(f"SELECT run_id FROM {name}").fetchall() for name in ("runs", "devices", "cells")]
    assert found == [[(run_id(9),)]] * 3


def test_space_that_cannot_be_given_back_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes as soon as the runs are out; they are out."""
    where = kept(tmp_path, [record(1)])
    monkeypatch.setattr(store, "BUSY_S", 0.05)
    with store.writing(where) as connection, closing(sqlite3.connect(where.path, isolation_level=None)) as other:
        seen: list[str] = []

        def occupy(statement: str) -> None:
            if statement == "VACUUM":
                other.execute("BEGIN IMMEDIATE")
                seen.append(statement)

        connection.set_trace_callback(occupy)
        updates.remove(connection, [run_id(1)])
    assert (seen, runs(where)) == (["VACUUM"], [])


def test_what_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    """A byte of the command line that is no UTF-8, in what is asked for and in what is to be recorded."""
    where = kept(tmp_path, [record(1)])
    with pytest.raises(HistoryError, match=r"UTF-8, .*'caf\\udce9'"), store.reading(where) as connection:
        queries.run(connection, "caf\udce9")
    with pytest.raises(HistoryError, match="UTF-8"):
        kept(tmp_path, [record(2, profile="caf\udce9")])
    assert runs(where) == [run_id(1)]


def test_what_contradicts_itself_is_refused_in_words(tmp_path: Path) -> None:
    """The facts of a device are of another one than its cells are on: nobody of ours has written that."""
    where = kept(tmp_path, [record(1)])
    altered(where, "UPDATE devices SET facts = replace(facts, 'GPU-5317350e', 'GPU-5317350f')")
    with store.reading(where) as opened, pytest.raises(HistoryError, match="a cell on 'GPU-5317350e-"):
        queries.run(opened, run_id(1))


@pytest.mark.parametrize(
    ("table", "column", "ask"),
    [
        ("runs", "hostname", lambda opened: queries.run(opened, run_id(1))),
        ("devices", "health_words", lambda opened: queries.run(opened, run_id(1))),
        ("devices", "health_words", lambda opened: queries.offences(opened, [UUID])),
        ("cells", "doubt", lambda opened: queries.run(opened, run_id(1))),
        ("cells", "doubt", lambda opened: queries.points(opened, "resnet50")),
        ("runs", "hostname", lambda opened: queries.points(opened, "resnet50")),
        ("cells", "model_name", queries.models),
    ],
)
def test_bytes_in_place_of_a_text_are_refused_in_words(
    tmp_path: Path, table: str, column: str, ask: Callable[[sqlite3.Connection], object]
) -> None:
    """SQLite keeps them in a column of texts too; nobody of ours has written that."""
    where = kept(tmp_path, [record(1, health="WARN")])
    altered(where, f"UPDATE {table} SET {column} = x'00ff'")
    with pytest.raises(HistoryError, match="has not written"), store.reading(where) as opened:
        ask(opened)


WRITABLE = "PRAGMA writable_schema = ON"


@pytest.mark.parametrize("column", ["cell_key", "launches", "figures"])
def test_a_number_in_place_of_a_text_is_refused_in_words(tmp_path: Path, column: str) -> None:
    """Where the damage is in the schema, SQLite makes no text of it."""
    where = kept(tmp_path, [record(1)])
    schema = f"UPDATE sqlite_master SET sql = replace(sql, '{column} TEXT', '{column}') WHERE name = 'cells'"
    altered(where, WRITABLE, schema)
    altered(where, f"UPDATE cells SET {column} = 5")
    with closing(sqlite3.connect(where.path)) as connection:
        assert connection.execute(f"SELECT {column} FROM cells").fetchone() == (5,)
    with pytest.raises(HistoryError, match="has not written"), store.reading(where) as opened:
        queries.run(opened, run_id(1))


def test_a_column_may_be_written_in_other_letters(tmp_path: Path) -> None:
    """SQLite finds it all the same, and calls it as the schema does."""
    where = kept(tmp_path, [record(1)])
    before = runs(where)
    altered(where, WRITABLE, "UPDATE sqlite_master SET sql = replace(sql, 'tainted', 'tAinted') WHERE name = 'runs'")
    assert runs(where) == before


def test_a_run_without_end_is_refused_in_words(tmp_path: Path) -> None:
    """SQLite keeps what is infinite; no run has taken that long."""
    where = kept(tmp_path, [record(1)])
    altered(where, "UPDATE runs SET seconds = 9e999")
    with pytest.raises(HistoryError, match="has not written"):
        runs(where)


def test_readers_make_nothing(tmp_path: Path) -> None:
    """Where no run was recorded there is no history, and asking makes none."""
    with store.reading(place(tmp_path / "none")) as connection:
        assert connection is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by", ["reader", "writer"])
def test_an_older_version_is_brought_up_to_date(tmp_path: Path, by: str) -> None:
    """What was in it is still there, by whoever opens it first; what the version did not know is empty."""
    where = place(tmp_path)
    with closing(sqlite3.connect(where.path)) as connection:
        connection.executescript(VERSION_1)
    if by == "writer":
        kept(tmp_path, [record(1)])
    with store.reading(where) as opened:
        old = queries.run(opened, "20250101")
        assert opened.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
        [offence] = queries.offences(opened, [UUID])
    assert (old.run.stack, old.run.burn_in, old.devices[0].burn_in) == ({"driver": "550"}, "", "")
    assert (offence.health, offence.health_words, offence.burn_in) == ("FAIL", "rows failed", "")


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Not its first statement either: all steps are one transaction."""
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        store.migrate(connection)
        before = list(connection.iterdump())
        broken = (*MIGRATIONS, ("CREATE TABLE more (x)", "PRAGMA user_version = 3", "CREATE TABLE runs (again)"))
        with pytest.raises(sqlite3.OperationalError, match="already exists"):
            store.migrate(connection, broken)
        assert list(connection.iterdump()) == before
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)


def test_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    """Neither to read nor to write; the message says what to do."""
    where = kept(tmp_path, [record(1)])
    altered(where, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = where.path.read_bytes()
    for opening in (store.writing, store.reading):
        with pytest.raises(HistoryError, match="newer gpubench"), opening(where):
            pass
    assert where.path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["history.db"]


AS_NOBODY = """
    import os, sys
    from pathlib import Path
    from orchestrator.history import queries as reading, store, updates as writing
    from orchestrator.history.records import Filter
    from orchestrator.errors import HistoryError
    from tests.fakes.histories import place, record
    if os.getuid() == 0:
        os.setuid(65534)
    with store.reading(place(Path(sys.argv[1]))) as connection:
        print([line.run_id for line in reading.lines(connection, Filter())])
    try:
        with store.writing(place(Path(sys.argv[1]))) as connection:
            writing.record(connection, record(2))
    except HistoryError as error:
        print(error)
"""


def test_a_history_that_may_not_be_written_can_be_read() -> None:
    """Of somebody else, in a folder of theirs: nothing is made there, and writing is refused with the reason."""
    with tempfile.TemporaryDirectory() as folder:
        where = kept(Path(folder), [record(1)])
        where.path.chmod(0o444)
        where.path.parent.chmod(0o555)
        with child(AS_NOBODY, folder) as other:
            told, _ = other.communicate(timeout=60)
        assert [path.name for path in Path(folder).iterdir()] == ["history.db"]
        where.path.parent.chmod(0o755)
    read, refused = told.splitlines()
    assert (read, folder in refused) == (f"['{run_id(1)}']", True)


def test_an_older_history_that_may_not_be_written_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be brought up to date there; the message says what to do."""
    where = kept(tmp_path, [record(1)])
    monkeypatch.setattr(os, "access", lambda *_: False)
    altered(where, "PRAGMA user_version = 1")
    with pytest.raises(HistoryError, match=f"version 1, .* version {len(MIGRATIONS)}"), store.reading(where):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """As words, for a note."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(HistoryError, match=f"{os.strerror(errno.ENOTDIR)}|{os.strerror(errno.EEXIST)}"),
        store.writing(place(tmp_path / "file")),
    ):
        pass


@pytest.mark.parametrize(("kind", "journal"), [("local", "wal"), ("remote", "delete")])
def test_the_log_is_for_local_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, journal: str) -> None:
    """Elsewhere, the database has a rollback journal, also where it was made on a local disk and moved."""
    for local, expected in ((True, "wal"), (kind == "local", journal)):
        monkeypatch.setattr(store, "is_local", lambda _, local=local: local)
        with store.writing(place(tmp_path / "data")) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone()[0] == expected
            assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


KILLED = """
    import os, sys
    from pathlib import Path
    from orchestrator.history import store, updates as writing
    from tests.fakes.histories import place, record
    store.is_local = lambda path: sys.argv[2] == "local"
    real = writing._text
    def stop(value):
        if isinstance(value, dict) and "peak_memory_mb" in value:
            stop.seen += 1
            if stop.seen == 2:
                print("in the middle", flush=True)
                sys.stdin.read()
        return real(value)
    stop.seen = 0
    with store.writing(place(Path(sys.argv[1]))) as connection:
        made = record(2)
        writing._text = stop
        import msgspec
        writing.record(connection, msgspec.structs.replace(made, cells=made.cells * 1000))
"""


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_a_writer_that_is_killed_leaves_the_history_whole(tmp_path: Path, kind: str) -> None:
    """With each kind of journal: what was there is there, of the run that was being written there is nothing."""
    where = kept(tmp_path / "data", [record(1)])
    with child(KILLED, str(tmp_path / "data"), kind) as writer:
        assert writer.stdout.readline() == "in the middle\n"
        writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    assert runs(where) == [run_id(1)]
    with closing(sqlite3.connect(where.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM cells").fetchone()[0] == 1
    kept(tmp_path / "data", [record(3)])
    assert runs(where) == [run_id(3), run_id(1)]


def test_who_holds_the_history_for_too_long_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one gives up with a sentence; nothing waits for ever."""
    where = kept(tmp_path, [record(1)])
    monkeypatch.setattr(store, "BUSY_S", 0.05)
    with store.writing(where) as first, store.transaction(first):
        first.execute("DELETE FROM runs")
        with pytest.raises(HistoryError, match="database is locked"), store.writing(where) as second:
            updates.record(second, record(2))
