"""Reads the history: runs by a filter, one run in full, points of trends, and what was said against devices."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.compare.side import SideDevice
from orchestrator.errors import HistoryError
from orchestrator.history.records import CellRecord, DeviceRecord, Filter, Offence, Point, RunLine, RunRecord
from orchestrator.report.keys import CellKey

SHOWN: Final = 5
"""So many runs are named that an id may mean."""
_LINES: Final = """
SELECT run_id, test_date, folder, hostname, profile, seconds, verdict, exit_code, finished, tainted, health, burn_in,
    planned, ok, stack
FROM runs
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
_OFFENCES: Final = """
SELECT runs.run_id, test_date, gpu_uuid, devices.health, health_words, devices.burn_in, burn_in_words
FROM devices JOIN runs ON runs.run_id = devices.run_id
WHERE gpu_uuid = ? AND kind = 'cuda' AND NOT tainted
    AND (devices.health IN ('FAIL', 'WARN') OR devices.burn_in IN ('FAIL', 'WARN'))
ORDER BY test_date, runs.run_id
"""


def lines(connection: sqlite3.Connection, wanted: Filter) -> list[RunLine]:
    """The runs that are wanted, newest first."""
    found = connection.execute(_LINES, msgspec.structs.asdict(wanted))
    names = [column[0] for column in found.description]
    return [_line(connection, dict(zip(names, row, strict=True))) for row in found.fetchall()]


def run(connection: sqlite3.Connection, name: str) -> RunRecord:
    """The run of that id, or the one that begins so. Raises HistoryError where it means none, or several."""
    if not name:
        raise HistoryError("expected the id of a recorded run, or a unique beginning of one, got an empty text")
    found = lines(connection, Filter(run_id=name))
    meant = [one for one in found if one.run_id == name] or found
    if len(meant) != 1:
        which = f"several: {', '.join(one.run_id for one in meant[:SHOWN])}" if meant else "none; `history` lists them"
        raise HistoryError(f"{name!r}: expected the id of a recorded run, or a unique beginning of one; found {which}")
    return in_full(connection, meant[0])


def in_full(connection: sqlite3.Connection, line: RunLine) -> RunRecord:
    """All that is kept of a run."""
    devices = [
        DeviceRecord(
            device=msgspec.json.decode(row[0], type=SideDevice),
            health=row[1],
            health_words=row[2],
            burn_in=row[3],
            burn_in_words=row[4],
        )
        for row in connection.execute(_DEVICES, (line.run_id,))
    ]
    cells = [_cell(row) for row in connection.execute(_CELLS, (line.run_id,))]
    return RunRecord(run=line, devices=tuple(devices), cells=tuple(cells))


def points(
    connection: sqlite3.Connection,
    model: str,
    *,
    gpu: str | None = None,
    precision: str | None = None,
    batch_size: int | None = None,
    since: str | None = None,
) -> list[Point]:
    """Every recorded cell of a model that is wanted, oldest run first."""
    wanted = {"model": model, "gpu": gpu, "precision": precision, "batch_size": batch_size, "since": since}
    return [
        Point(
            run_id=row[0],
            test_date=row[1],
            hostname=row[2],
            tainted=bool(row[3]),
            stack=msgspec.json.decode(row[4], type=dict[str, str]),
            device=msgspec.json.decode(row[5], type=SideDevice),
            cell=_cell(row[6:]),
        )
        for row in connection.execute(_POINTS, wanted)
    ]


def models(connection: sqlite3.Connection) -> list[str]:
    """The names of all models and probes of which cells are recorded."""
    return [row[0] for row in connection.execute(_MODELS)]


def offences(connection: sqlite3.Connection, uuids: Sequence[str]) -> list[Offence]:
    """What runs have said against these GPUs, oldest first, those aside that injected faults on purpose."""
    return [
        Offence(**dict(zip(Offence.__struct_fields__, row, strict=True)))
        for uuid in uuids
        for row in connection.execute(_OFFENCES, (uuid,))
    ]


def _line(connection: sqlite3.Connection, value: dict[str, object]) -> RunLine:
    counts = Counter(name for (name,) in connection.execute(_NAMES, (value["run_id"],)))
    value["devices"] = tuple(f"{number} x {name}" for name, number in counts.items())
    value["stack"] = msgspec.json.decode(str(value["stack"]))
    # SQLite has no truth values, only 0 and 1.
    value |= {"finished": bool(value["finished"]), "tainted": bool(value["tainted"])}
    return msgspec.convert(value, RunLine)


def _cell(row: Sequence[str]) -> CellRecord:
    uuid, key, status, doubt, metric, launches, figures = row
    return CellRecord(
        gpu_uuid=uuid,
        key=msgspec.json.decode(key, type=CellKey),
        status=status,
        doubt=doubt,
        metric=metric,
        launches=msgspec.json.decode(launches, type=tuple[float, ...]),
        figures=msgspec.json.decode(figures, type=dict[str, float]),
    )
