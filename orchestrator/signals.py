"""Signals that ask the run to stop, turned into something a poller can wait for.

The first SIGINT or SIGTERM asks gently, the second at once. SIGHUP is ignored: a night does not end with the ssh
session.
"""

import os
import signal
from types import FrameType, TracebackType
from typing import Self


class StopSignals:
    """While entered, counts requests to stop. `fileno` is readable when one has come."""

    def __init__(self) -> None:
        self.requests = 0
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._reader

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
