"""The folder for temporary files: ours (sockets, self-tests) and those of libraries in workers."""

import tempfile
from pathlib import Path
from typing import Final

from orchestrator.errors import ConfigError

USUAL: Final = Path("/tmp")  # noqa: S108 - a name alone: who would write there checks first whose it is, and whether it can
NONE: Final = "no temporary folder can be written"
REMEDY: Final = "free space, or set TMPDIR to a folder that can be written"


def folder() -> Path | None:
    """TMPDIR, else /tmp and its like, else the current folder; None where none of them can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def require() -> Path:
    """The same. Raises ConfigError where there is none."""
    found = folder()
    if found is None:
        raise ConfigError(f"{NONE}: {REMEDY}. Nothing was started.")
    return found
