"""What the commands of `history` are asked: in which history, of which run, since when."""

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
    """The history, to be read; None where nobody has named one, and there is none yet. Raises HistoryError."""
    from orchestrator.history import location, store

    found = location.find(history_db, os.environ)
    with store.reading(found) as connection:
        if connection is None and not found.default:
            raise HistoryError(f"{found.path}: {NONE_YET}")
        yield connection


@contextmanager
def opened(history_db: str | None) -> "Iterator[sqlite3.Connection]":
    """The history, to be read. Raises HistoryError, also where there is none yet."""
    with existing(history_db) as connection:
        if connection is None:
            raise HistoryError(NONE_YET)
        yield connection


def moment(text: str | None, option: str) -> str | None:
    """A date, or a time on it, as the history has times. Raises ConfigError."""
    if text is None:
        return None
    import datetime

    from orchestrator.system.calendar_times import iso

    try:
        return iso(datetime.datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{option}: expected a date such as 2026-11-01, got '{text}'") from None


def run_id(run: str, runs_folder: str) -> str:
    """The id of the run that is meant; of one that is there as a folder, whatever that is called now, as it is kept.

    An id stays one, as the history keeps runs whose folder is gone. Raises UserError where there is no such folder.
    """
    from orchestrator.run_reports import run_lookup
    from orchestrator.store import run_files
    from orchestrator.system import safe_read

    if run.startswith("@") or (run and safe_read.is_folder(Path(run))):
        return run_files.load(run_lookup.find(run, runs_folder)).run_id
    return run
