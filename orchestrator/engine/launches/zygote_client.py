"""Client of the zygote, the process that forks workers: start it, request forks, read its answers, end it."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orchestrator.system import host, log_files, process_end
from orchestrator.system.process_end import Exit
from orchestrator.system.process_start import Zygote
from protocol.messages import FromZygote, LaunchSpec, Ready

FORK_S: Final = 10.0
"""Seconds after which a zygote that does not fork counts as hanging. A fork took 35 ms at 768 MB resident."""
_STARTS: Final = 5
"""Maximum number of starts of a zygote by one process: after so many deaths, another one would die, too."""


class ZygoteError(Exception):
    """The zygote cannot be started, so nothing can be measured."""


class ZygoteClient:
    """Keeps one zygote. preload: modules that it imports. patience_s: maximum duration of the imports.

    log: file for its output. environment: variables to add to ours. ready: its imports are done, so `fork` is answered.
    start_ms: milliseconds from its last start until it was ready; 0.0 before it was ready once.
    """

    def __init__(self, preload: tuple[str, ...], log: Path, patience_s: float, environment: dict[str, str]) -> None:
        self.ready = False
        self.start_ms = 0.0
        self._preload = preload
        self._log = log
        self._patience_s = patience_s
        self._environment = environment
        self._zygote: Zygote | None = None
        self._starts = 0
        self._began = 0.0
        self._asked = 0.0
        self._silence = ""

    @property
    def pid(self) -> int | None:
        """PID of the zygote; None if none runs."""
        return None if self._zygote is None else self._zygote.pid

    def fileno(self) -> int:
        """Return the descriptor that is readable when the zygote has answered or is gone; -1 without a zygote."""
        return -1 if self._zygote is None else self._zygote.fileno()

    def start(self, now: float) -> None:
        """Start a zygote; do not wait for its imports. now: loop's clock (s).

        Raises ZygoteError if the process cannot be started, and at the sixth call.
        """
        if self._starts >= _STARTS:
            raise ZygoteError(f"the zygote ended {self._starts} times; see {self._log}")
        self._starts += 1
        self._began, self._asked = time.monotonic(), now
        self._silence = ""
        try:
            self._zygote = Zygote(self._preload, self._log, self._environment)
        except OSError as error:
            raise ZygoteError(f"the zygote cannot be started: {error}") from error

    def fork(self, spec: LaunchSpec) -> None:
        """Request the process of a launch. `receive` has the answer. OSError: no zygote, or its socket is full."""
        if self._zygote is None:
            raise OSError("there is no zygote")
        self._zygote.fork(spec)

    def receive(self) -> Iterator[FromZygote]:
        """Yield the messages that have arrived, without waiting. Raises EOFError if the zygote is gone: call `bury`."""
        while self._zygote is not None and (answer := self._zygote.receive()) is not None:
            if isinstance(answer, Ready):
                self.ready = True
                self.start_ms = (time.monotonic() - self._began) * 1000
            yield answer

    def kill_if_stuck(self, now: float, oldest_request: float) -> None:
        """Kill a zygote that imports for longer than patience_s, or does not answer a fork within FORK_S.

        oldest_request: time of the oldest unanswered request to fork, or infinity. Times: seconds of the loop's clock.
        """
        imports_too_long = not self.ready and now > self._asked + self._patience_s
        if self._zygote is None or not (imports_too_long or now > oldest_request + FORK_S):
            return
        if not self._silence:  # once, because the signal changes the state
            patience_s = self._patience_s if imports_too_long else FORK_S
            state = host.process_state(self._zygote.pid).partition(" ")[0] or "unknown"
            self._silence = f"did not answer for {patience_s:g} s (state {state}) and was ended"
        process_end.signal_quietly(self._zygote.pid, signal.SIGKILL)

    def bury(self) -> str:
        """Reap the dead zygote and return how it ended: "ended with exit code 1".

        Raises ZygoteError if it ended during its imports, and not by a signal.
        """
        was_ready, self.ready = self.ready, False
        exit_ = self.close()
        words = "ended" if exit_ is None else f"ended with {exit_.description}"
        if not was_ready and (exit_ is None or exit_.signal is None):
            raise ZygoteError(f"the zygote {words} during its imports; see {self._log}\n{log_files.tail(self._log)}")
        return self._silence if self._silence and exit_ == Exit(code=None, signal=signal.SIGKILL) else words

    def hold_log(self) -> None:
        """Free disk space: punch a hole into the zygote's log if it takes over 8 MiB on disk.

        The first MiB and the last 3 MiB stay. The hole reads as NUL bytes, and no text in the log marks it.
        """
        log_files.hold_below_cap(self._log)

    def close(self) -> Exit | None:
        """Kill the zygote, wait for its end and return how it ended; None if there is no zygote."""
        zygote, self._zygote = self._zygote, None
        return None if zygote is None else zygote.close()
