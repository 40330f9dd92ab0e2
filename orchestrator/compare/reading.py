"""What a person names to compare, read with suspicion: the thin step before everything else here.

    report.json      strictly: this version's schema, and nothing beside it
    a baseline       likewise, by a version of its own
    a run's folder   its report is made again, so that it may be of an older version
    @last, @last~1   the newest run of the runs folder, the one before it
    a run's id       as `history` prints it, or a unique beginning: the report of its folder is made again
    a name           of a baseline that ships: configs/baselines/<name>.json

Whatever is wrong is a ConfigError that names the file and what to do.
"""

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.compare import side
from orchestrator.compare.side import Side
from orchestrator.compare.strict import contents, decode
from orchestrator.configuration.catalogue import configs_folder
from orchestrator.configuration.naming import counted
from orchestrator.configuration.yaml_schema import did_you_mean
from orchestrator.disk import bounded, folders, reporting
from orchestrator.errors import ConfigError, HistoryError, RunFolderError
from orchestrator.report.model import SCHEMA_VERSION, Report
from protocol.paths import RunPaths

_LAST: Final = re.compile(r"@last(?:~(\d{1,6}))?")
_RUN_ID: Final = re.compile(r"\d{8}[\da-f-]*")
"""20260401-213000-1f2e3d, or its beginning from the day on: shorter ones may be files with a slip in their name."""


class _Head(msgspec.Struct):
    """What tells the kinds of file apart; the rest is not looked at."""

    schema_version: int | None = None
    baseline_version: int | None = None


def read(name: str, runs_folder: str, history_db: str | None = None) -> Side:
    """What `name` names, as a side. Raises UserError for what cannot be read as one.

    history_db: where ids of runs are looked up; None for the user's own history.
    """
    report = _of_a_run(name, runs_folder, history_db)
    if report is not None:
        return side.of_report(report, name)
    return _file(Path(name), name)


def baseline(name: str, history_db: str | None = None) -> Side:
    """A baseline: a file, a report, a run's folder or id, or the name of one that ships. Raises UserError."""
    if not name.strip():
        raise ConfigError("--compare-baseline: expected a file or a name, got an empty text")
    if bounded.is_there(Path(name)) or "/" in name or name.endswith(".json") or _RUN_ID.fullmatch(name):
        return read(name, "runs", history_db)
    folder = configs_folder() / "baselines"
    shipped = sorted(path.stem for path in folder.glob("*.json"))
    if name not in shipped:
        there = f"There is {', '.join(shipped)}." if shipped else "None ships with this version."
        raise ConfigError(
            f"--compare-baseline: there is no file {name}, and no baseline of that name.{did_you_mean(name, shipped)} "
            f"{there} `make-baseline` makes one of a report."
        )
    return _file(folder / f"{name}.json", name)


def _of_a_run(name: str, runs_folder: str, history_db: str | None) -> Report | None:
    """The report of a run's folder; None where `name` names none."""
    if (last := _LAST.fullmatch(name)) is not None:
        back = int(last[1] or 0)
        found = folders.in_order(Path(runs_folder))
        if back >= len(found):
            raise RunFolderError(
                f"{name}: there {'is' if len(found) == 1 else 'are'} {counted(len(found), 'run')} in {runs_folder}. "
                "Name the run's folder, or --runs-folder."
            )
        return reporting.make(RunPaths(found[-1 - back]))
    if name.startswith("@"):
        raise ConfigError(f"{name}: expected @last, or @last~1 for the run before it")
    if bounded.is_folder(Path(name)):
        return reporting.make(folders.existing_run(name, runs_folder))
    if _RUN_ID.fullmatch(name) is not None and not bounded.is_there(Path(name)):
        return reporting.make(_recorded(name, history_db))
    return None


def _recorded(name: str, history_db: str | None) -> RunPaths:
    """The folder of the run that has this id in the history. Raises HistoryError; RunFolderError where it is gone."""
    from orchestrator.history import place, store  # SQLite may be missing, and nothing else here needs it
    from orchestrator.history import reading as recorded

    where = place.find(history_db, os.environ)
    with store.reading(where) as connection:
        if connection is None:
            raise HistoryError(
                f"{name}: there is no such file or folder, and no history that could know a run of that id: "
                f"{where.path} does not exist"
            )
        try:
            run = recorded.line(connection, name)
        except HistoryError as error:
            why = f"There is no file or folder of that name either; the history that was asked is {where.path}"
            raise HistoryError(f"{error}. {why}") from error
    if not bounded.is_there(RunPaths(Path(run.folder)).config):
        raise RunFolderError(
            f"{name}: the history knows this run, but {run.folder} (on {run.hostname}) is no longer the folder of a "
            "run. The history does not keep what a comparison needs: name the folder where it is now, or its report."
        )
    return folders.existing_run(run.folder, "")


def _file(path: Path, name: str) -> Side:
    data = contents(path)
    head = decode(data, _Head, name)
    if head.baseline_version is None:
        return side.of_report(_report(data, head.schema_version, name), name)
    if head.baseline_version != side.VERSION:
        raise ConfigError(
            f"{name}: a baseline of version {head.baseline_version}; this gpubench reads version {side.VERSION}. Make "
            "it again from its run."
        )
    return msgspec.structs.replace(decode(data, Side, name), name=name)


def _report(data: bytes, version: int | None, name: str) -> Report:
    if version is None:
        raise ConfigError(f"{name}: neither a report of gpubench nor a baseline: it says no schema_version")
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{name}: a report of schema version {version}; this gpubench reads version {SCHEMA_VERSION}. Name the "
            "run's folder in its place, or render the report again: `report RUN -f json`."
        )
    return decode(data, Report, name)
