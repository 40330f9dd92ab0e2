"""Which history, run and date a `history` command means."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orchestrator.errors import ConfigError, HistoryError

if TYPE_CHECKING:
    import sqlite3

NONE_YET: Final = "no run is recorded yet; `run` records each, but with --no-history"


@contextmanager
def existing(history_db: str | None) -> "Iterator[sqlite3.Connection | None]":
    """Open the history for reading; None if the default one does not exist yet. Raises HistoryError."""
    from orchestrator.history import location, store

    found = location.find(history_db, os.environ)
    with store.reading(found) as connection:
        if connection is None and not found.default:
            raise HistoryError(f"{found.path}: {NONE_YET}")
        yield connection


@contextmanager
def opened(history_db: str | None) -> "Iterator[sqlite3.Connection]":
    """Open the history for reading. Raises HistoryError, also if none exists yet."""
    with existing(history_db) as connection:
        if connection is None:
            raise HistoryError(NONE_YET)
        yield connection


def moment(text: str | None, option: str) -> str | None:
    """Parse a date or time into the history's format. Raises ConfigError."""
    if text is None:
        return None
    import datetime

    from orchestrator.system.calendar_times import iso

    try:
        return iso(datetime.datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{option}: expected a date such as 2026-11-01, got '{text}'") from None


def run_id(run: str, runs_folder: str) -> str:
    """Return the id of a run, also of a folder that was renamed. Raises UserError for a missing folder."""
    from orchestrator.run_reports import run_lookup
    from orchestrator.store import run_files
    from orchestrator.system import safe_read

    if run.startswith("@") or (run and safe_read.is_folder(Path(run))):
        return run_files.load(run_lookup.find(run, runs_folder)).run_id
    return run
