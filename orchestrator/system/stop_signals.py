"""Signals that ask a command to stop, turned into something a poller can wait for.

    the program begins ─▶ begin: each ends it ─▶ settle, where the command does not count them; otherwise:
    the command begins ─▶ spare(0) ─▶ there is a folder: spare(1) ─▶ the loop: all are counted ─▶ hooks: spare(0)
                          each ends it        the second ends it     1 gently, 2 at once          each ends a hook

SIGINT and SIGTERM mean the same. What ends a command does so as KeyboardInterrupt, so that everything is closed and
whoever wants to be told is told. SIGHUP is ignored: a night does not end with the ssh session.
"""

import math
import os
import signal
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

from protocol.exit_codes import ExitCode

_FOUND: Final[dict[int, Any]] = {}
"""What `begin` has replaced."""


class StopSignals:
    """While entered, counts requests to stop, all of them unless `spare` says so. `fileno` is readable after one."""

    def __init__(self) -> None:
        self.requests = 0
        self._spared: float = math.inf
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._reader

    def spare(self, requests: float) -> None:
        """Only count the next `requests`; the one after them raises KeyboardInterrupt wherever the program is."""
        self._spared = self.requests + requests

    def clear(self) -> None:
        """Take note: not readable until the next signal."""
        try:
            while os.read(self._reader, 64):
                pass
        except BlockingIOError:
            return

    def __enter__(self) -> Self:
        for number, action in (
            (signal.SIGINT, self._count),
            (signal.SIGTERM, self._count),
            (signal.SIGHUP, signal.SIG_IGN),
        ):
            self._before[number] = signal.signal(number, action)
        self._wakeup_before = signal.set_wakeup_fd(self._writer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, action in self._before.items():
            signal.signal(number, action)  # type: ignore[arg-type]  # what signal.signal itself returned
        os.close(self._reader)
        os.close(self._writer)

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self.requests += 1
        if self.requests > self._spared:
            raise KeyboardInterrupt


def begin() -> None:
    """From the first line of a program: a request to stop ends it at once, in words, and SIGHUP is ignored.

    A KeyboardInterrupt would be raised in the middle of some import, which may swallow it, or end in a traceback.
    What whoever started us had ignored stays ignored.
    """
    for number, action in ((signal.SIGINT, _end), (signal.SIGTERM, _end), (signal.SIGHUP, signal.SIG_IGN)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            _FOUND[number] = signal.signal(number, action)


def settle() -> None:
    """Signals do again what they did before `begin`: the command that begins has files to close, and no run to save."""
    while _FOUND:
        signal.signal(*_FOUND.popitem())


def leave() -> None:
    """Ignore requests to stop from here on: the process ends, and says how it went.

    Nothing is left that a signal could stop, and one that came now would put itself in the place of the exit code.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Python ends by SIGINT, whatever sys.exit says, once a KeyboardInterrupt has left code that was given to exec() as
    # a text, as dataclasses do while they are imported. The next such code takes that back.
    exec("")  # noqa: S102 - takes no text of anybody


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"error: interrupted\n")
    os._exit(ExitCode.INCOMPLETE)
