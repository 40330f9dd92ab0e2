"""Find the history file: the one that the user names, else one in the user's data folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.errors import HistoryError

NOWHERE: Final = (
    "there is no folder for the history of runs: neither XDG_DATA_HOME nor HOME names one. Use --history-db FILE or "
    "--no-history"
)


@dataclass(frozen=True)
class Place:
    """Where the history file is or will be. default: the user did not name it, so it is in gpubench's own folder."""

    path: Path
    default: bool


def find(file: str | None, environment: Mapping[str, str]) -> Place:
    """Return where the history file is or will be: at `file` if the user named one. Nothing is created.

    Otherwise it is gpubench/history.db in the user's data folder: XDG_DATA_HOME, else .local/share in HOME.
    environment: environment variables. Raises HistoryError if XDG_DATA_HOME is no absolute path and HOME is not the
    absolute path of an existing folder.
    """
    if file is not None:
        return Place(Path(file), default=False)
    data_home = Path(environment.get("XDG_DATA_HOME", ""))
    if not data_home.is_absolute():  # a relative one is to be ignored, says the XDG Base Directory Specification
        home = Path(environment.get("HOME", ""))
        if not (home.is_absolute() and home.is_dir()):
            raise HistoryError(NOWHERE)
        data_home = home / ".local" / "share"
    return Place(data_home / "gpubench" / "history.db", default=True)
