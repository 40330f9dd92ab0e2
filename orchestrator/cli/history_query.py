"""Find the history, run and date that a `history` command names, or suggest others."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orchestrator.errors import ConfigError, HistoryError

if TYPE_CHECKING:
    import sqlite3

    from orchestrator.history.records import Filter

SHOWN: Final = 12  # names listed
NONE_YET: Final = "no run is recorded yet. `run` records each run, unless --no-history is given"


@contextmanager
def existing(history_db: str | None) -> "Iterator[sqlite3.Connection | None]":
    """Open the history within `with`, for reading. Yields None if it is the default file and does not exist.

    history_db: file of --history-db; None: the default. Raises HistoryError if it is unreadable, or named and missing.
    """
    from orchestrator.history import location, store

    found = location.find(history_db, os.environ)
    with store.reading(found) as connection:
        if connection is None and not found.default:
            raise HistoryError(f"{found.path}: {NONE_YET}")
        yield connection


@contextmanager
def opened(history_db: str | None) -> "Iterator[sqlite3.Connection]":
    """Open the history within `with`, for reading. Raises HistoryError if it is unreadable or missing.

    history_db: file of --history-db; None: the default.
    """
    with existing(history_db) as connection:
        if connection is None:
            raise HistoryError(NONE_YET)
        yield connection


def moment(text: str | None, option: str) -> str | None:
    """Return `text`, an ISO 8601 date or time (local without a zone), as UTC: "2024-01-15T10:30:00Z"; None for None.

    option: name of the option, for the error. Raises ConfigError if `text` is no date.
    """
    if text is None:
        return None
    import datetime

    from orchestrator.system.calendar_times import iso

    try:
        return iso(datetime.datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{option}: expected a date such as 2026-11-01, got '{text}'") from None


def run_id(run: str, runs_folder: str) -> str:
    """Return the id of a run. run: @last, @last~1 and so on, a folder, or else an id, which is returned unchecked.

    Raises UserError if there is no such last run in runs_folder, or the folder holds no run.
    """
    from orchestrator.run_reports import run_lookup
    from orchestrator.store import run_files
    from orchestrator.system import safe_read

    if run.startswith("@") or (run and safe_read.is_folder(Path(run))):
        return run_files.load(run_lookup.find(run, runs_folder)).run_id
    return run


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint for an unknown name: " Did you mean X?", else " Recorded: X, Y."; "" if `names` is empty.

    names: recorded names. "Recorded" lists at most SHOWN of them.
    """
    from orchestrator.config.yaml_schema import did_you_mean

    return did_you_mean(name, names) or (f" Recorded: {_some(names)}." if names else "")


def suggest_filters(connection: "sqlite3.Connection", wanted: "Filter") -> Iterator[str]:
    """Yield a hint for each value of the filter (model, GPU, verdict) that no recorded run has."""
    from orchestrator.history import queries

    models, verdicts, devices = queries.models(connection), queries.verdicts(connection), queries.devices(connection)
    if wanted.model is not None and wanted.model not in models:
        yield f"no recorded run measured {wanted.model}.{nearest(wanted.model, models)}"
    if wanted.gpu is not None and not any(_means(wanted.gpu, device) for device in devices):
        names = _once([name for _, name in devices])
        near = nearest(wanted.gpu, names)
        yield f"no recorded device has {wanted.gpu} in its name, or at the start of its UUID.{near}"
    if wanted.verdict is not None and wanted.verdict.lower() not in map(str.lower, verdicts):
        yield f"no recorded verdict of a run, health or burn-in is {wanted.verdict}.{nearest(wanted.verdict, verdicts)}"


def describe_cells(connection: "sqlite3.Connection", model: str) -> str:
    """Return a hint on what is recorded of a model: " Recorded of X: …" with precisions, batch sizes and devices.

    If nothing is, the hint names other recorded models (see `nearest`).
    """
    from orchestrator.history import queries

    kinds = queries.kinds(connection, model)
    if not kinds:
        return nearest(model, queries.models(connection))
    precisions, batches, devices, newest = zip(*kinds, strict=True)
    sizes = [f"batch {size}" for size in sorted(set(batches)) if size]
    what = _some([*_once(precisions), *sizes])
    return f" Recorded of {model}: {what}, on {_some(_once(devices))}. Its last run started {max(newest)}."


def _means(gpu: str, device: tuple[str, str]) -> bool:
    uuid, name = (text.lower() for text in device)
    return uuid.startswith(gpu.lower()) or gpu.lower() in name


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _some(names: Sequence[str]) -> str:
    from orchestrator.config.yaml_schema import listed

    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return listed([*names[:SHOWN], *more], "and")
