"""The standard streams where they are not what a terminal gives: closed, full, or left by their reader.

closed    standard error: everything is said to nobody; standard output: whatever had to be printed there is an error
full      the same error, with the system's reason
left      (`| head`) no error: who reads only the beginning wanted only the beginning

With --log-format json, what is complained of is a JSON object a line, as all else on standard error.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, TextIO

import click

from orchestrator.errors import StorageError

_AS_JSON: Final = ContextVar("as_json", default=False)
_LEVELS: Final = {"error": "error", "warning": "warning", "note": "info"}
"""By the word that a complaint begins with."""


class StdoutError(StorageError):
    """Standard output cannot be written."""


def occupy_closed() -> None:
    """Open /dev/null wherever a standard descriptor is closed, for this process and those that it starts.

    The kernel gives the lowest free number to the next file: a journal that became number 2 would take in whatever a
    library complains about. sys.stdout stays None where it was closed, so that `say` can tell.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def say(text: str | bytes) -> None:
    """Print to standard output; the bytes of a file as they are, whatever the locale.

    Raises StdoutError where that cannot be; a reader who left early is no error.
    """
    if sys.stdout is None:
        raise StdoutError("standard output cannot be written: it is closed")
    try:
        click.echo(printable(text) if isinstance(text, str) else text)
    except OSError as error:
        refused(error)


def indented(value: object) -> str:
    """Return `value` as JSON for people and programs."""
    import msgspec  # --help has no need of it

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def refused(error: OSError) -> None:
    """What to do about an error of standard output. Raises StdoutError unless only its reader has left."""
    _mute(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        raise StdoutError(f"standard output cannot be written: {error.strerror}") from error


def complain(text: str) -> None:
    """Print to standard error, or, where that is impossible, to nobody: the exit code says the rest."""
    try:
        click.echo(_in_json(text) if as_json() else printable(text), err=True)
    except OSError:
        _mute(sys.stderr)


@contextmanager
def speaking(words: Iterable[str]) -> Iterator[None]:
    """Complain as a command line asks for it, also where the rest of it cannot be understood."""
    last = ""
    asked = False
    for word in words:
        option, equals, value = word.partition("=")
        if last == "--log-format":
            asked = word == "json"
        elif option == "--log-format" and equals:
            asked = value == "json"
        last = word
    token = _AS_JSON.set(asked)
    try:
        yield
    finally:
        _AS_JSON.reset(token)


def as_json() -> bool:
    """Whether complaints are for a program."""
    return _AS_JSON.get()


def _in_json(text: str) -> str:
    """A notice as terminal/structured.py writes it, without the half second that structlog takes to import."""
    import json
    from datetime import UTC, datetime

    word, colon, message = text.partition(": ")
    level = _LEVELS.get(word) if colon else None
    told = {
        "event": "notice",
        "level": level or "error",
        "message": printable(text if level is None else message),
        "timestamp": f"{datetime.now(UTC).replace(tzinfo=None).isoformat()}Z",
    }
    return json.dumps(told)


def printable(text: str) -> str:
    """Without control characters: a file's name or a key in it could otherwise steer the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def _mute(stream: TextIO) -> None:
    """Send what `stream` still holds to nowhere: Python flushes it at exit, and would end with a code of its own."""
    descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    with suppress(OSError):  # a test runner's stream has no descriptor
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)
