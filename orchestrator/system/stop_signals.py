"""Count stop requests (signals that ask a command to stop), and make them visible to a poller through a descriptor.

After begin() each request ends the program; settle() restores the earlier handlers. After spare(n) the next n requests
are only counted, and the one after them interrupts the command (KeyboardInterrupt).

    the program begins     begin(); later settle(), if the command does not count requests itself
    the command begins     spare(0): a request ends the command
    the run has a folder   spare(1): the second request ends the command
    the loop of the run    spare(infinity): the loop ends launches gently after the first request, at once after two
    hooks                  spare(0): each request ends a hook

SIGINT and SIGTERM mean the same. SIGHUP is ignored, so that a run outlives its ssh session.
"""

import math
import os
import signal
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

from protocol.exit_codes import ExitCode

_FOUND: Final[dict[int, Any]] = {}


class StopSignals:
    """Within `with`, ignores SIGHUP and counts SIGINT and SIGTERM in `requests`.

    They raise KeyboardInterrupt only after a call of `spare`.
    """

    def __init__(self) -> None:
        self.requests = 0
        self._spared: float = math.inf
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def fileno(self) -> int:
        """Return the descriptor that a stop request makes readable, until `clear`."""
        return self._reader

    def spare(self, requests: float) -> None:
        """Only count the next `requests` stop requests (math.inf: all); the one after them raises KeyboardInterrupt."""
        self._spared = self.requests + requests

    def clear(self) -> None:
        """Make the descriptor unreadable until the next stop request. `requests` keeps its value."""
        with suppress(BlockingIOError):
            while os.read(self._reader, 64):
                pass

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
    """From now on, SIGINT and SIGTERM end the program at once with exit code INCOMPLETE, and SIGHUP is ignored.

    Signals that were ignored before stay ignored.
    """
    for number, action in ((signal.SIGINT, _end), (signal.SIGTERM, _end), (signal.SIGHUP, signal.SIG_IGN)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            _FOUND[number] = signal.signal(number, action)


def settle() -> None:
    """Restore the signal handlers from before `begin`."""
    while _FOUND:
        signal.signal(*_FOUND.popitem())


def leave() -> None:
    """From now on, ignore SIGINT and SIGTERM, which would replace the exit code of this ending process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Python ends by SIGINT, whatever sys.exit says, once a KeyboardInterrupt has left code of exec(), which dataclasses
    # use at import. The next exec() takes that back.
    exec("")  # noqa: S102 - takes no text of anybody


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"error: interrupted\n")
    os._exit(ExitCode.INCOMPLETE)
