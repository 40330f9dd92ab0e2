"""Read JSON from users: with the right types (no text for a number), without missing keys, and of limited size."""

import os
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from orchestrator.errors import ConfigError
from orchestrator.system import safe_read

MAX_BYTES: Final = 256 * 1024 * 1024
"""Largest accepted file: a report of 100,000 launches has 100 MB. In memory, numbers take up to 16 times as much."""

_LONE_SURROGATE: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?:[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F])"
)
"""Matches the first half of a surrogate pair without the second, for which msgspec says that the text is truncated."""

T = TypeVar("T")


def contents(path: Path) -> bytes:
    """Return a file's content. Raises ConfigError if it is missing, unreadable, no regular file, or over MAX_BYTES."""
    try:
        with safe_read.opened(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise ConfigError(f"{path}: larger than {MAX_BYTES >> 20} MiB, so gpubench did not write it")
            return file.read(MAX_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: there is no file and no run with this name. `gpubench-orchestrate history` lists runs."
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def decode(data: bytes, kind: type[T], name: str) -> T:
    """Decode JSON as `kind`, without converting text to numbers. Raises ConfigError with `name` (file) and position."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: not as gpubench writes it: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: damaged: {_damage(data, str(error))}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply to be a report") from error


def convert(value: object, kind: type[T], name: str) -> T:
    """Convert `value`, which is decoded JSON, to `kind`. Text is not converted to numbers.

    name: of the file, for the error. Raises ConfigError if `value` does not match `kind`.
    """
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: not as gpubench writes it: {error}") from error


def _damage(data: bytes, error: str) -> str:
    if not data.strip():
        return "it is empty"
    if "truncated" not in error:
        return f"it is not JSON: {error}"
    half = _LONE_SURROGATE.search(data)
    return "it is cut off" if half is None else f"half a character (a lone surrogate) at byte {half.start()}"
