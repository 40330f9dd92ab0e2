"""The folder for temporary files."""

import tempfile
from pathlib import Path
from typing import Final

from orchestrator.errors import ConfigError

USUAL: Final = Path("/tmp")  # noqa: S108 - a name alone: the writer checks owner and permissions first
NONE: Final = "no temporary folder can be written"
REMEDY: Final = "free space, or set TMPDIR to a folder that can be written"


def folder() -> Path | None:
    """TMPDIR, else /tmp and its like, else the current folder; None where none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def require() -> Path:
    """The same folder. Raises ConfigError where there is none."""
    found = folder()
    if found is None:
        raise ConfigError(f"{NONE}: {REMEDY}. Nothing was started.")
    return found
