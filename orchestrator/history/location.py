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
    """The history file. default: whether it is in gpubench's own folder, where a damaged file may be moved aside."""

    path: Path
    default: bool


def find(file: str | None, environment: Mapping[str, str]) -> Place:
    """Return the history file. file: as named by the user, or None. Raises HistoryError if no folder is usable."""
    if file is not None:
        return Place(Path(file), default=False)
    data_home = Path(environment.get("XDG_DATA_HOME", ""))
    if not data_home.is_absolute():  # a relative one is to be ignored, says the XDG Base Directory Specification
        home = Path(environment.get("HOME", ""))
        if not (home.is_absolute() and home.is_dir()):
            raise HistoryError(NOWHERE)
        data_home = home / ".local" / "share"
    return Place(data_home / "gpubench" / "history.db", default=True)
