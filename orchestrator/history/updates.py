"""Record runs in the history and remove them."""

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from orchestrator.history.records import RunRecord
from orchestrator.history.store import transaction

_DELETE: Final = "DELETE FROM runs WHERE run_id = ?"
_RUN: Final = """
INSERT INTO runs (run_id, test_date, folder, hostname, profile, seconds, verdict, exit_code, finished, tainted, health,
    burn_in, planned, ok, stack)
VALUES (:run_id, :test_date, :folder, :hostname, :profile, :seconds, :verdict, :exit_code, :finished, :tainted, :health,
    :burn_in, :planned, :ok, :stack)
"""
_DEVICE: Final = """
INSERT INTO devices (run_id, gpu_uuid, label, gpu_name, kind, facts, health, health_words, burn_in, burn_in_words)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_CELL: Final = """
INSERT INTO cells (run_id, gpu_uuid, model_name, phase, precision, batch_size, cell_key, status, doubt, metric,
    launches, figures)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def record(connection: sqlite3.Connection, made: RunRecord) -> None:
    """Record a run and commit. An earlier entry of this run is replaced."""
    run = made.run
    with transaction(connection):
        connection.execute(_DELETE, (run.run_id,))
        connection.execute(_RUN, {**msgspec.structs.asdict(run), "stack": _text(run.stack), "devices": None})
        for one in made.devices:
            device = one.device
            words = (one.health, one.health_words, one.burn_in, one.burn_in_words)
            facts = (device.gpu_uuid, device.label, device.gpu_name, device.kind, _text(device))
            connection.execute(_DEVICE, (run.run_id, *facts, *words))
        for cell in made.cells:
            key = cell.key
            names = (cell.gpu_uuid, key.model_name, key.phase, key.precision, key.batch_size, _text(key))
            found = (cell.status, cell.doubt, cell.metric, _text(cell.launches), _text(cell.figures))
            connection.execute(_CELL, (run.run_id, *names, *found))


def remove(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Remove runs from the history and commit. Unknown ids are ignored.

    The file shrinks, unless another process uses it or the disk has no room for a copy.
    """
    with transaction(connection):
        connection.executemany(_DELETE, [(run_id,) for run_id in run_ids])
    # Another process uses it, or the disk has no room for the copy: later runs then reuse the space.
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
