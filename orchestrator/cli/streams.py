"""Standard streams that are closed, full, or left by their reader.

closed    messages to standard error are dropped; output to standard output is an error
full      the same, and the error has the system's reason
left      (`| head`) no error

With --log-format json, each message on standard error is one line with a JSON object.
"""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, TextIO

import click

from orchestrator.errors import StorageError

_AS_JSON: Final = ContextVar("as_json", default=False)
_LEVELS: Final = {"error": "error", "warning": "warning", "note": "info"}  # by first word of a complaint


class StdoutError(StorageError):
    """Standard output that cannot be written."""


def occupy_closed() -> None:
    """Open /dev/null at closed descriptors 0 to 2, so that no other file gets them. A closed sys.stdout stays None."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def say(text: str | bytes) -> None:
    """Print to standard output, plus a newline: bytes unchanged, text with unprintable characters replaced.

    Raises StdoutError if that fails, except if the reader has closed the pipe, as `head` does.
    """
    if sys.stdout is None:
        raise StdoutError("standard output cannot be written: it is closed")
    try:
        click.echo(_printable(text) if isinstance(text, str) else text)
    except OSError as error:
        refused(error)


def indented(value: object) -> str:
    """Return `value` as indented JSON."""
    import msgspec  # --help does not need it

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def refused(error: OSError) -> None:
    """Mute standard output after `error`. Raises StdoutError, except if the reader has closed the pipe."""
    _mute(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        raise StdoutError(f"standard output cannot be written: {error.strerror}") from error


def complain(text: str) -> None:
    """Print a message, such as "note: ...", to standard error. Errors in doing so are ignored."""
    try:
        click.echo(_in_json(text) if as_json() else _printable(text), err=True)
    except OSError:
        _mute(sys.stderr)


@contextmanager
def with_log_format(words: Iterable[str]) -> Iterator[None]:
    """Within `with`, print messages in the format that --log-format requests. words: the unparsed command line."""
    json_requested = False
    for word, following in itertools.pairwise((*words, "")):
        if word == "--log-format":
            json_requested = following == "json"
        elif word.startswith("--log-format="):
            json_requested = word == "--log-format=json"
    token = _AS_JSON.set(json_requested)
    try:
        yield
    finally:
        _AS_JSON.reset(token)


def as_json() -> bool:
    """Whether messages on standard error are printed as JSON."""
    return _AS_JSON.get()


def _in_json(text: str) -> str:
    import json
    from datetime import UTC, datetime

    word, colon, message = text.partition(": ")
    level = _LEVELS.get(word) if colon else None
    # As in terminal/structured.py, without structlog, whose import takes 0.5 s.
    notice = {
        "event": "notice",
        "level": level or "error",
        "message": _printable(text if level is None else message),
        "timestamp": f"{datetime.now(UTC).replace(tzinfo=None).isoformat()}Z",
    }
    return json.dumps(notice)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def _mute(stream: TextIO) -> None:
    """Send further output of `stream` to /dev/null, so that Python's flush at exit does not change the exit code."""
    descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    with suppress(OSError):  # a test runner's stream has no descriptor
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)
