"""The folder for temporary files."""

import tempfile
from pathlib import Path
from typing import Final

from orchestrator.errors import ConfigError

USUAL: Final = Path("/tmp")  # noqa: S108 - a name alone: the writer checks owner and permissions first
NONE: Final = "no temporary folder is writable"
REMEDY: Final = "Free space, or set TMPDIR to a writable folder"


def folder() -> Path | None:
    """Return the folder for temporary files: TMPDIR, else /tmp or similar, else the current one; None if none works."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def require() -> Path:
    """Return the folder for temporary files. Raises ConfigError if there is none."""
    path = folder()
    if path is None:
        raise ConfigError(f"{NONE}. {REMEDY}. Nothing was started.")
    return path
