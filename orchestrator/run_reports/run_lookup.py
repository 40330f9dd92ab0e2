"""Find the run that a user means, for every command that takes a run.

nothing             the newest of the runs folder
a path              the folder of a run; an existing path comes before any id
@last, @last~1      the newest of the runs folder, the one before it
an id               as `history` prints it, or a unique beginning of 8 digits or more: of the runs folder, else of the
                    history
"""

import os
import re
from pathlib import Path
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.errors import ConfigError, HistoryError, RunFolderError
from orchestrator.store import folders
from orchestrator.system import safe_read
from protocol.paths import RunPaths

_LAST: Final = re.compile(r"@last(?:~(\d{1,6}))?")
_RUN_ID: Final = re.compile(r"\d{8}[\da-f-]*")  # 20260401-213000-1f2e3d, or its beginning from the day on
_SHOWN: Final = 5  # maximum number of runs in the error for an ambiguous id


def find(name: str | None, runs: str, history_db: str | None = None) -> RunPaths:
    """Return the folder of the run called `name`. None: the newest. Raises UserError if no run or several match.

    runs: the runs folder. history_db: history file in which an id is looked up if the runs folder does not have it,
    None for the user's own history file.
    """
    meant = None if name is None else find_run(name, runs, history_db)
    return meant or folders.existing_run(name, runs)


def find_run(name: str, runs: str, history_db: str | None = None) -> RunPaths | None:
    """Return the folder of the run `name`: a folder, @last or an id. None for any other name, such as a report file.

    runs: the runs folder. history_db: history file in which an id is looked up if the runs folder does not have it,
    None for the user's own history file. Raises UserError if no run or several match.
    """
    if (last := _LAST.fullmatch(name)) is not None:
        return _back(name, int(last[1] or 0), runs)
    if name.startswith("@"):
        raise ConfigError(f"{name}: expected @last, or @last~1 for the run before it")
    if safe_read.is_folder(Path(name)):
        return folders.existing_run(name, runs)
    if is_id(name) and not safe_read.is_there(Path(name)):
        return _in_folder(name, runs) or _recorded(name, history_db)
    return None


def is_id(name: str) -> bool:
    """Whether the name has the form of a run's id or of its beginning (8 digits or more). The run need not exist."""
    return _RUN_ID.fullmatch(name) is not None


def _back(name: str, back: int, runs: str) -> RunPaths:
    ordered = folders.in_order(Path(runs))
    if back >= len(ordered):
        raise RunFolderError(
            f"{name}: there {'is' if len(ordered) == 1 else 'are'} {plural(len(ordered), 'run')} in {runs}. "
            "Name the run's folder, or --runs-folder."
        )
    return RunPaths(ordered[-1 - back])


def _in_folder(name: str, runs: str) -> RunPaths | None:
    matching = [folder for folder in folders.in_order(Path(runs)) if folder.name.startswith(name)]
    meant = [folder for folder in matching if folder.name == name] or matching
    if len(meant) > 1:
        several = ", ".join(folder.name for folder in meant[:_SHOWN])
        raise RunFolderError(
            f"{name}: several runs in {runs} have ids that begin with this: {several}. Name one of them."
        )
    return RunPaths(meant[0]) if meant else None


def _recorded(name: str, history_db: str | None) -> RunPaths:
    from orchestrator.history import location, store  # SQLite may be missing, and nothing else here needs it
    from orchestrator.history import queries as recorded

    where = location.find(history_db, os.environ)
    with store.reading(where) as connection:
        if connection is None:
            raise HistoryError(
                f"{name}: there is no such file or folder, and no history to look up a run of that id: "
                f"{where.path} does not exist"
            )
        try:
            run = recorded.line(connection, name)
        except HistoryError as error:
            why = f"There is no file or folder of that name either. The history is {where.path}"
            raise HistoryError(f"{error}. {why}") from error
    if not safe_read.is_there(RunPaths(Path(run.folder)).config):
        raise RunFolderError(
            f"{name}: the history knows this run, but {run.folder} (on {run.hostname}) is no longer the folder of a "
            "run. The history does not hold its results. Name the current folder of the run, or its report."
        )
    return folders.existing_run(run.folder, "")
