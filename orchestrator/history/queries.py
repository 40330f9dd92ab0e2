"""Queries of the history: runs by a filter, one run, points of trends, offences (FAIL or WARN) of devices."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from orchestrator.compare.run_figures import SideDevice
from orchestrator.errors import HistoryError
from orchestrator.figures.keys import CellKey
from orchestrator.history.records import CellRecord, DeviceRecord, Filter, Offence, Point, RunLine, RunRecord

Kept = TypeVar("Kept", bound=msgspec.Struct)
Read = TypeVar("Read")

SHOWN: Final = 5
_RUNS: Final = """
SELECT run_id, test_date, folder, hostname, profile, seconds, verdict, exit_code, finished, tainted, health, burn_in,
    planned, ok, stack
FROM runs
"""
_OF_A_RUN: Final = tuple(_RUNS.partition("FROM")[0].removeprefix("\nSELECT").replace(",", " ").split())
_OF_ID: Final = "WHERE run_id = :run_id"
_WANTED: Final = """
WHERE (:run_id IS NULL OR substr(run_id, 1, length(:run_id)) = :run_id)
    AND (:since IS NULL OR test_date >= :since)
    AND (:verdict IS NULL OR lower(:verdict) IN (lower(verdict), lower(health), lower(burn_in)))
    AND (:model IS NULL OR EXISTS (
        SELECT 1 FROM cells WHERE cells.run_id = runs.run_id AND model_name = :model))
    AND (:gpu IS NULL OR EXISTS (
        SELECT 1 FROM devices WHERE devices.run_id = runs.run_id
            AND (substr(lower(gpu_uuid), 1, length(:gpu)) = lower(:gpu) OR instr(lower(gpu_name), lower(:gpu)))))
ORDER BY test_date DESC, run_id DESC
LIMIT coalesce(:limit, -1)
"""
_IDS: Final = "SELECT run_id FROM runs ORDER BY test_date, run_id"
_NAMES: Final = "SELECT gpu_name FROM devices WHERE run_id = ? ORDER BY rowid"
_DEVICES: Final = """
SELECT facts, health, health_words, burn_in, burn_in_words FROM devices WHERE run_id = ? ORDER BY rowid
"""
_CELLS: Final = """
SELECT gpu_uuid, cell_key, status, doubt, metric, launches, figures FROM cells WHERE run_id = ? ORDER BY rowid
"""
_POINTS: Final = """
SELECT runs.run_id, test_date, hostname, tainted, stack, facts,
    cells.gpu_uuid, cell_key, status, doubt, metric, launches, figures
FROM cells
    JOIN runs ON runs.run_id = cells.run_id
    JOIN devices ON devices.run_id = cells.run_id AND devices.gpu_uuid = cells.gpu_uuid
WHERE model_name = :model
    AND (:precision IS NULL OR precision = :precision)
    AND (:batch_size IS NULL OR batch_size = :batch_size)
    AND (:since IS NULL OR test_date >= :since)
    AND (:gpu IS NULL OR substr(lower(cells.gpu_uuid), 1, length(:gpu)) = lower(:gpu)
        OR instr(lower(gpu_name), lower(:gpu)))
ORDER BY test_date, runs.run_id, cells.rowid
"""
_MODELS: Final = "SELECT DISTINCT model_name FROM cells ORDER BY model_name"
_DEVICES_EVER: Final = "SELECT DISTINCT gpu_uuid, gpu_name FROM devices ORDER BY gpu_name, gpu_uuid"
_VERDICTS: Final = """
SELECT verdict FROM runs UNION SELECT health FROM runs UNION SELECT burn_in FROM runs WHERE burn_in <> ''
"""
_KINDS: Final = """
SELECT precision, batch_size, gpu_uuid, max(test_date) FROM cells JOIN runs ON runs.run_id = cells.run_id
WHERE model_name = ? GROUP BY precision, batch_size, gpu_uuid ORDER BY precision, batch_size, gpu_uuid
"""
_OFFENCES: Final = """
SELECT runs.run_id, test_date, gpu_uuid, devices.health, health_words, devices.burn_in, burn_in_words
FROM devices JOIN runs ON runs.run_id = devices.run_id
WHERE gpu_uuid = ? AND kind = 'cuda' AND NOT tainted
    AND (devices.health IN ('FAIL', 'WARN') OR devices.burn_in IN ('FAIL', 'WARN'))
ORDER BY test_date, runs.run_id
"""


def lines(connection: sqlite3.Connection, wanted: Filter) -> list[RunLine]:
    """Return the runs that match the filter, newest first."""
    with _as_of_now(connection):
        return _runs(connection, _WANTED, msgspec.structs.asdict(wanted))


def run(connection: sqlite3.Connection, name: str) -> RunRecord:
    """Return all that the history keeps of a run. name: its id, or the beginning of it.

    Raises HistoryError if no run or several runs match, unless `name` is the whole id of one.
    """
    with _as_of_now(connection):
        return in_full(connection, _meant(connection, name))


def line(connection: sqlite3.Connection, name: str) -> RunLine:
    """Return the summary of a run. name: its id, or the beginning of it.

    Raises HistoryError if no run or several runs match, unless `name` is the whole id of one.
    """
    with _as_of_now(connection):
        return _meant(connection, name)


def _meant(connection: sqlite3.Connection, name: str) -> RunLine:
    if not name:
        raise HistoryError("expected the id of a recorded run, or a unique beginning of an id, got an empty text")
    found = _runs(connection, _WANTED, msgspec.structs.asdict(Filter(run_id=name)))
    meant = [one for one in found if one.run_id == name] or found
    if len(meant) != 1:
        if not meant:
            raise HistoryError(f"{name!r}: no recorded run has an id that begins with this. `history` lists all runs")
        several = ", ".join(one.run_id for one in meant[:SHOWN])
        raise HistoryError(f"{name!r}: several recorded runs begin with this id: {several}. Give more characters")
    return meant[0]


def in_full(connection: sqlite3.Connection, run: RunLine) -> RunRecord:
    """Return the whole run of a summary. Raises HistoryError if a cell's device is not one of the run's devices."""
    devices = [
        _made(
            DeviceRecord,
            device=_decoded(row[0], SideDevice),
            health=row[1],
            health_words=row[2],
            burn_in=row[3],
            burn_in_words=row[4],
        )
        for row in connection.execute(_DEVICES, (run.run_id,))
    ]
    cells = [_cell(row) for row in connection.execute(_CELLS, (run.run_id,))]
    if strange := {cell.gpu_uuid for cell in cells} - {one.device.gpu_uuid for one in devices}:
        raise HistoryError(
            f"the history has content that this gpubench has not written: run {run.run_id} has a cell on "
            f"{min(strange)!r}, which is none of its devices"
        )
    return RunRecord(run=run, devices=tuple(devices), cells=tuple(cells))


def each(connection: sqlite3.Connection) -> Iterator[RunRecord]:
    """Yield every run, oldest first, each read in a transaction of its own. Skips runs deleted meanwhile."""
    for (run_id,) in connection.execute(_IDS).fetchall():
        with _as_of_now(connection):
            made = [in_full(connection, run) for run in _runs(connection, _OF_ID, {"run_id": run_id})]
        yield from made


@contextmanager
def _as_of_now(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()  # nothing was written


def points(
    connection: sqlite3.Connection,
    model: str,
    *,
    gpu: str | None = None,
    precision: str | None = None,
    batch_size: int | None = None,
    since: str | None = None,
) -> list[Point]:
    """Return a Point for each cell, device and run of a model, probe or operator, oldest run first.

    Cells without a result are included. model: its whole name. gpu: beginning of a UUID or part of a name, in any case.
    since: date of the oldest run, ISO 8601 in UTC. A filter that is None matches all.
    """
    wanted = {"model": model, "gpu": gpu, "precision": precision, "batch_size": batch_size, "since": since}
    return [
        _made(
            Point,
            run_id=row[0],
            test_date=row[1],
            hostname=row[2],
            tainted=bool(row[3]),
            stack=_decoded(row[4], dict[str, str]),
            device=_decoded(row[5], SideDevice),
            cell=_cell(row[6:]),
        )
        for row in connection.execute(_POINTS, wanted)
    ]


def models(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all recorded models, probes and operators, sorted."""
    return msgspec.convert([row[0] for row in connection.execute(_MODELS)], list[str])


def devices(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return each recorded (UUID, name) once, sorted by name. A UUID such as cpu:0 may have several names."""
    return msgspec.convert(connection.execute(_DEVICES_EVER).fetchall(), list[tuple[str, str]])


def verdicts(connection: sqlite3.Connection) -> list[str]:
    """Return all verdicts that occur in the history, each once: of runs, of their health and of burn-ins."""
    return msgspec.convert([row[0] for row in connection.execute(_VERDICTS)], list[str])


def kinds(connection: sqlite3.Connection, model: str) -> list[tuple[str, int, str, str]]:
    """Return (precision, batch size, device UUID, start of the newest run with them in ISO 8601) of a model, sorted."""
    return msgspec.convert(connection.execute(_KINDS, (model,)).fetchall(), list[tuple[str, int, str, str]])


def offences(connection: sqlite3.Connection, uuids: Sequence[str]) -> list[Offence]:
    """Return the runs in which a GPU of `uuids` had FAIL or WARN for its health or its burn-in.

    Runs with injected faults are omitted. All runs of the first UUID come first, then those of the second, and so on.
    Those of one GPU are ordered from the oldest to the newest.
    """
    return [
        _made(Offence, **dict(zip(Offence.__struct_fields__, row, strict=True)))
        for uuid in uuids
        for row in connection.execute(_OFFENCES, (uuid,))
    ]


def _runs(connection: sqlite3.Connection, which: str, wanted: Mapping[str, object]) -> list[RunLine]:
    found = connection.execute(_RUNS + which, wanted).fetchall()
    return [_line(connection, dict(zip(_OF_A_RUN, row, strict=True))) for row in found]


def _line(connection: sqlite3.Connection, value: dict[str, object]) -> RunLine:
    counts = Counter(name for (name,) in connection.execute(_NAMES, (value["run_id"],)))
    value["devices"] = tuple(f"{number} x {name}" for name, number in counts.items())
    value["stack"] = _decoded(value["stack"], dict[str, str])
    # SQLite has no truth values, only 0 and 1.
    value |= {"finished": bool(value["finished"]), "tainted": bool(value["tainted"])}
    return msgspec.convert(value, RunLine)


def _made(kind: type[Kept], **values: object) -> Kept:
    return msgspec.convert(values, kind)


def _decoded(text: object, kind: type[Read]) -> Read:
    return msgspec.json.decode(str(text), type=kind)


def _cell(row: Sequence[str]) -> CellRecord:
    uuid, key, status, doubt, metric, launches, figures = row
    return _made(
        CellRecord,
        gpu_uuid=uuid,
        key=_decoded(key, CellKey),
        status=status,
        doubt=doubt,
        metric=metric,
        launches=_decoded(launches, tuple[float, ...]),
        figures=_decoded(figures, dict[str, float]),
    )
