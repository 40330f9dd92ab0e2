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
    """The history file. default: it is in our own folder, so a damaged one may be moved."""

    path: Path
    default: bool


def find(file: str | None, environment: Mapping[str, str]) -> Place:
    """Return the place of the history. file: as the user named it. Raises HistoryError without a usable folder."""
    if file is not None:
        return Place(Path(file), default=False)
    data_home = Path(environment.get("XDG_DATA_HOME", ""))
    if not data_home.is_absolute():  # a relative one is to be ignored, says the XDG Base Directory Specification
        home = Path(environment.get("HOME", ""))
        if not (home.is_absolute() and home.is_dir()):
            raise HistoryError(NOWHERE)
        data_home = home / ".local" / "share"
    return Place(data_home / "gpubench" / "history.db", default=True)
