"""JSON that people hand in, read with suspicion: typed, whole, and never more than memory holds."""

from pathlib import Path
from typing import TypeVar

import msgspec

from orchestrator.disk import bounded
from orchestrator.errors import ConfigError

T = TypeVar("T")


def contents(path: Path) -> bytes:
    """What is in the file. Raises ConfigError for one that is missing, no regular file, or beyond the cap."""
    try:
        return bounded.read(path)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file, nor a run's folder of that name") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def decode(data: bytes, kind: type[T], name: str) -> T:
    """`data` as `kind`, strictly. Raises ConfigError that names the file and the place in it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: not as gpubench writes it: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = "it is cut off" if "truncated" in str(error) else f"it is not JSON: {error}"
        raise ConfigError(f"{name}: damaged: {why}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply to be a report") from error
