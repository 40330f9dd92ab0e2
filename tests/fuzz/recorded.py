"""Targets that read the history of runs: its file, of whatever kind; and a database with values that nobody wrote."""

import functools
import shutil
import sqlite3
from contextlib import closing, suppress
from typing import Any

import msgpack

from orchestrator.cli import history_text
from orchestrator.config import margins
from orchestrator.errors import HistoryError
from orchestrator.history import export, queries, store, trend, updates, wording
from orchestrator.history.location import Place
from orchestrator.history.records import Filter
from tests.fakes import histories
from tests.fakes.runs import gpus
from tests.fuzz.template import folder

_TABLES = ("runs", "devices", "cells")


def check_history(data: bytes) -> None:
    """All that is kept, or a HistoryError; who writes makes another only where this one is damaged."""
    place = _empty()
    place.path.write_bytes(data)
    with suppress(HistoryError):
        _read(place)
    place = _empty()  # who reads may have brought it up to date, and made a log beside it
    place.path.write_bytes(data)
    notes: list[str] = []
    try:
        with store.writing(place, notes) as connection:
            updates.record(connection, histories.record(5))
    except HistoryError:
        return
    assert not notes or (place.path.parent / "history.damaged-1.db").read_bytes() == data
    with store.reading(place) as again:
        assert histories.run_id(5) in [one for (one,) in again.execute("SELECT run_id FROM runs")]


def history_seeds() -> tuple[bytes, ...]:
    return _made(3), _made(0)


def check_recorded(data: bytes) -> None:
    """Whatever the rows hold: all that is kept, or a HistoryError."""
    try:
        tables = msgpack.unpackb(data, strict_map_key=False)
        rows = [(name, row) for name in _TABLES for row in tables[name]]
    except (ValueError, TypeError, KeyError, msgpack.UnpackException):
        return
    place = _empty()
    place.path.write_bytes(_made(0))
    with closing(sqlite3.connect(place.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("BEGIN")
        for name, row in rows:
            _insert(connection, name, row)
        connection.execute("COMMIT")
    try:
        _read(place)
    except HistoryError:
        return


def recorded_seeds() -> tuple[bytes, ...]:
    place = _empty()
    place.path.write_bytes(history_seeds()[0])
    with closing(sqlite3.connect(place.path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = {name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in _TABLES}
    return (msgpack.packb(tables),)


def _insert(connection: sqlite3.Connection, table: str, row: Any) -> None:
    """Put a row in, unless the table itself refuses it."""
    if not isinstance(row, dict) or not all(isinstance(name, str) and name.isidentifier() for name in row):
        return
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    try:
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
    except (sqlite3.Error, OverflowError, UnicodeEncodeError):
        return


def _read(place: Place) -> None:
    """Everything that the commands of `history`, and a new run, ask of it."""
    with store.reading(place) as connection:
        if connection is None:
            return
        found = queries.lines(connection, Filter())
        history_text.lines(found)
        for line in found:
            history_text.in_full(queries.in_full(connection, line))
        b"".join(export.to_csv(queries.each(connection))).decode()
        b"".join(export.to_json(queries.each(connection)))
        for model in queries.models(connection):
            trends = trend.trends(queries.points(connection, model), margins.load())
            history_text.plots(trends, ascii_only=False)
        wording.earlier_findings(
            gpus(1), queries.offences(connection, [histories.UUID, *(one.uuid for one in gpus(1))])
        )


def _empty() -> Place:
    """A place with nothing in it, nor beside it."""
    where = folder() / "history"
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    return histories.place(where)


@functools.cache
def _made(runs: int) -> bytes:
    kept = [histories.record(number, value=100.0 + number) for number in range(1, runs + 1)]
    place = histories.kept(_empty().path.parent, kept)
    return place.path.read_bytes()
