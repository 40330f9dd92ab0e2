"""Write text to a terminal, a pipe or a file, without failing or waiting for its reader (in `close` up to a second).

A stopped terminal or a stalled ssh connection would block an ordinary write, and every deadline with it. The terminal
or pipe is opened anew: the shell shares the inherited one, which must not become non-blocking.
"""

import os
import select
import stat
import time
from contextlib import suppress
from typing import Final, TextIO

PENDING_LIMIT: Final = 1 << 20  # bytes kept for a slow reader; later writes are dropped until there is room

CLOSE_TIMEOUT_S: Final = 1.0
_FALLBACK_SIZE: Final = os.terminal_size((80, 24))


class Outlet:
    """A text stream for rich and structlog that never waits for its reader, except in `close`.

    Unread text is queued. While PENDING_LIMIT bytes (1 MiB) wait, new text is dropped. gone: the reader hung up, or
    `close` was called. Queued and later text is then dropped, without an error.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._pending = bytearray()
        self.gone = False
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        try:
            self._inherited: int | None = stream.fileno()
            stream.flush()
        except (OSError, ValueError):
            self._inherited = None
        self._fd = None if self._inherited is None else _reopened(self._inherited)
        self.is_terminal = self._inherited is not None and os.isatty(self._inherited)

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines of the terminal now; 80 by 24 if unknown."""
        try:
            size = os.get_terminal_size(self._inherited if self._inherited is not None else -1)
        except OSError:
            return _FALLBACK_SIZE
        return size if size.columns > 0 and size.lines > 0 else _FALLBACK_SIZE

    @property
    def congested(self) -> bool:
        """Flush, then return True if text is still queued, because the reader is slow."""
        self.flush()
        return bool(self._pending)

    def write(self, text: str) -> int:
        """Queue `text` for the next flush, or drop it if `gone` or PENDING_LIMIT bytes wait. Return len(text)."""
        if not self.gone and len(self._pending) < PENDING_LIMIT:
            self._pending += text.encode(self.encoding, "replace")
        return len(text)

    def flush(self) -> None:
        """Write as much queued text as the reader takes without waiting. On an error, drop the text and set `gone`."""
        while self._pending and not self.gone:
            try:
                sent = self._send()
            except BlockingIOError:
                return
            except (OSError, ValueError):
                self._give_up()
                return
            if not sent:
                return
            del self._pending[:sent]

    def close(self) -> None:
        """Write queued text for at most a second, drop the rest, and set `gone`. The inherited stream stays open."""
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while self.congested and not self.gone and (left := deadline - time.monotonic()) > 0:
            select.select([], [-1 if self._fd is None else self._fd], [], left)
        if self._fd is not None and self._fd != self._inherited:
            with suppress(OSError):
                os.close(self._fd)
        self.gone = True

    def _send(self) -> int:
        """Write queued text, and return the number of bytes written.

        If the reader takes nothing now, return 0, or raise BlockingIOError if the descriptor is non-blocking.
        """
        if self._fd is None:
            self._stream.write(self._pending.decode(self.encoding, "replace"))
            self._stream.flush()
            return len(self._pending)
        if self._fd == self._inherited:  # could not be opened anew: ask first, and write what a ready pipe always takes
            _, ready, _ = select.select([], [self._fd], [], 0)
            return os.write(self._fd, self._pending[: select.PIPE_BUF]) if ready else 0
        return os.write(self._fd, self._pending)

    def _give_up(self) -> None:
        self.gone = True
        self._pending.clear()


def _reopened(fd: int) -> int:
    """Return a new, non-blocking descriptor of a terminal or pipe; `fd` itself for a file or if opening it fails."""
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return fd
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd
