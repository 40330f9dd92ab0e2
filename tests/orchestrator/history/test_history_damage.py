"""history/store.py and damaged_file.py with real files: damage, other people's files, and two processes at once."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.errors import HistoryError
from orchestrator.history import damaged_file, store, updates
from orchestrator.history.location import Place
from tests.fakes.histories import altered, child, kept, place, record, run_id, runs


def truncated(path: Path) -> None:
    """The end is gone."""
    os.truncate(path, path.stat().st_size // 2)


def scribbled(path: Path) -> None:
    """A page in the middle is something else; the header is as it was."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(8192))


def random_bytes(path: Path) -> None:
    """Nothing is as it was."""
    path.write_bytes(os.urandom(50_000))


def text(path: Path) -> None:
    """Not a database at all."""
    path.write_text("dear diary\n" * 100)


def schema(path: Path) -> None:
    """What SQLite is to quote of the schema, to say what is wrong with it, is no text."""
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE cells", b"CREATE TABL\xec cells"))


def index(where: Place) -> None:
    """The tables are whole, and an index of one is that of another: a look-up by it would find nothing."""
    roots = "SELECT max(rootpage) FROM sqlite_master WHERE name = 'devices_by_uuid'"
    swapped = f"UPDATE sqlite_master SET rootpage = ({roots}) WHERE name = 'cells_of_model'"
    altered(where, "PRAGMA writable_schema = ON", swapped)


@pytest.mark.parametrize("damage", [truncated, scribbled, random_bytes, text, schema])
def test_a_damaged_history_is_set_aside_and_told(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Byte for byte, under a name of its own, twice if need be; the run is recorded in a new one."""
    for number in (1, 2):
        where = kept(tmp_path, [record(day) for day in range(1, 6)])
        damage(where.path)
        before = where.path.read_bytes()
        with pytest.raises(HistoryError, match="damaged"):
            runs(where)
        assert where.path.read_bytes() == before
        notes: list[str] = []
        with store.writing(where, notes) as connection:
            updates.record(connection, record(28))
        assert (tmp_path / f"history.damaged-{number}.db").read_bytes() == before
        assert runs(where) == [run_id(28)]
        assert [f"history.damaged-{number}.db" in note for note in notes] == [True]
        assert "\n" not in notes[0]


def test_an_index_of_something_else_is_damage(tmp_path: Path) -> None:
    """Recording a run checks the indexes too. With a wrong index, no query would find the stored runs."""
    where = kept(tmp_path, [record(day) for day in range(1, 4)])
    index(where)
    before = where.path.read_bytes()
    with store.writing(where, []) as connection:
        updates.record(connection, record(28))
    assert (tmp_path / "history.damaged-1.db").read_bytes() == before
    assert runs(where) == [run_id(28)]


def test_damage_is_told_to_those_who_meet_it(tmp_path: Path) -> None:
    """A list needs no index of models: who reads is not made to look at all of a file that may be large."""
    where = kept(tmp_path, [record(1)])
    with closing(sqlite3.connect(where.path)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'cells_of_model'").fetchall()
    with where.path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(os.urandom(4096))
    assert runs(where) == [run_id(1)]
    notes: list[str] = []
    with store.writing(where, notes):
        pass
    assert len(notes) == 1


def test_damage_in_a_large_history_is_found_by_the_one_who_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not looked through at each opening; it is set aside all the same, and the next one is recorded."""
    monkeypatch.setattr(store, "CHECKED_BYTES", 0)
    where = kept(tmp_path, [record(day) for day in range(1, 6)])
    scribbled(where.path)
    notes: list[str] = []
    with pytest.raises(HistoryError, match="damaged"), store.writing(where, notes) as connection:
        updates.record(connection, record(28))
    assert ["history.damaged-1.db" in note for note in notes] == [True]
    with store.writing(where) as connection:
        updates.record(connection, record(28))
    assert runs(where) == [run_id(28)]


def test_what_lies_beside_a_damaged_history_goes_with_it(tmp_path: Path) -> None:
    """A log that stayed would be taken for the new one's."""
    path = place(tmp_path).path
    random_bytes(path)
    for tail in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + tail).write_text(tail)
    (tmp_path / "history.damaged-1.db-wal").write_text("earlier")
    assert damaged_file.move(path, path.stat().st_ino) == tmp_path / "history.damaged-2.db"
    assert {one.name: one.read_text() for one in tmp_path.iterdir() if not one.name.endswith(".db")} == {
        "history.damaged-1.db-wal": "earlier",
        "history.damaged-2.db-wal": "-wal",
        "history.damaged-2.db-shm": "-shm",
        "history.damaged-2.db-journal": "-journal",
    }


def test_a_history_that_took_the_place_of_a_damaged_one_stays(tmp_path: Path) -> None:
    """Another process has set the damage aside since, and has begun anew; or has only just moved it."""
    where = kept(tmp_path, [record(1)])
    seen = where.path.stat().st_ino
    where.path.rename(tmp_path / "history.damaged-1.db")
    assert damaged_file.move(where.path, seen) is None
    kept(tmp_path, [record(2)])
    assert damaged_file.move(where.path, seen) is None
    assert runs(where) == [run_id(2)]


def test_a_named_file_that_is_none_of_ours_is_left_alone(tmp_path: Path) -> None:
    """--history-db report.json, or another program's database: refused, and not set aside either."""
    document, other = tmp_path / "report.json", tmp_path / "other.db"
    document.write_text("{}" * 1000)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = document.read_bytes(), other.read_bytes()
    for path, words in ((document, "not a history"), (other, "another program")):
        for opening in (store.writing, store.reading):
            with pytest.raises(HistoryError, match=words), opening(Place(path, default=False)):
                pass
    assert (document.read_bytes(), other.read_bytes()) == before
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "other.db"}


def test_a_named_history_that_is_damaged_is_set_aside(tmp_path: Path) -> None:
    """Its header says that it was one."""
    where = kept(tmp_path, [record(day) for day in range(1, 6)])
    truncated(where.path)
    with store.writing(Place(where.path, default=False)) as connection:
        updates.record(connection, record(28))
    assert {path.name for path in tmp_path.iterdir()} == {"history.db", "history.damaged-1.db"}


MANY = """
    import sys
    from pathlib import Path
    from orchestrator.history import store, updates as writing
    from tests.fakes.histories import place, record
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2]), int(sys.argv[2]) + 5):
        with store.writing(place(Path(sys.argv[1]))) as connection:
            writing.record(connection, record(number))
"""


@pytest.mark.parametrize("before", ["nothing", "damage"])
def test_two_runs_may_record_at_once(tmp_path: Path, before: str) -> None:
    """Where there is no history yet, and where there is a damaged one: nothing is lost, and it is set aside once."""
    where = place(tmp_path)
    if before == "damage":
        random_bytes(where.path)
    with child(MANY, str(tmp_path), "1") as one, child(MANY, str(tmp_path), "11") as other:
        for process in (one, other):
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            process.stdin.write("go\n")
            process.stdin.flush()
    assert (one.returncode, other.returncode) == (0, 0)
    assert len(runs(where)) == 10
    aside = [path.name for path in tmp_path.iterdir() if "damaged" in path.name]
    assert aside == (["history.damaged-1.db"] if before == "damage" else [])
