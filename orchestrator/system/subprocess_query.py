"""Ask one question in a short process of its own, because CUDA and NVML can hang or crash.

    ask ── python -P -m MODULE ──▶ answer ── one line of JSON ──▶ ask

A process that survives SIGKILL inside the driver is left to the kernel.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from orchestrator.system import process_end, process_start

T = TypeVar("T")

_PATIENCE_S: Final = 2.0
"""Seconds to wait after each step of ending a process that hangs: SIGTERM, SIGKILL."""
_CHUNK_BYTES: Final = 64 * 1024


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """The process hung, ended without an answer, or failed (even after an answer).

    seconds: how long it was waited for if it hung; None if it ended. end: how it ended, such as "exit code 1".
    last_line: last line of its output. Both are "" if it hung; last_line also if there was no output.
    """

    seconds: float | None = None
    end: str = ""
    last_line: str = ""


def ask(
    module: str,
    kind: type[T],
    timeout_s: float,
    *,
    environment: Mapping[str, str] | None = None,
    waiting: Callable[[], None] | None = None,
    remark_s: float = 0.0,
) -> T | Silence:
    """Run `module` as a process, and return its answer as a `kind`; Silence if it gives none, fails or hangs.

    Waits `timeout_s` seconds for the process to end, even if it has answered, and at most 4 s more to kill it.
    environment: variables added to ours. waiting: called once if the process has not ended after `remark_s` seconds.
    Raises OSError if the process cannot be started.
    """
    pid, answer = process_start.start_answering(module, environment=dict(environment or {}))
    pidfd = os.pidfd_open(pid)
    os.set_blocking(answer, False)
    output, ended = bytearray(), False
    began = time.monotonic()
    try:
        if waiting is not None and not (ended := _heard(pidfd, answer, output, began + min(remark_s, timeout_s))):
            waiting()
        ended = ended or _heard(pidfd, answer, output, began + timeout_s)
    finally:
        exit_ = process_end.reap(pid) if ended else _end(pid, pidfd)
        os.close(answer)
        os.close(pidfd)
    return _understood(bytes(output), exit_, kind) if ended else Silence(seconds=timeout_s)


def answer(find: Callable[[], msgspec.Struct]) -> int:
    """Print the result of `find` as a line of JSON, which `ask` reads. Return 0, the exit code of this process."""
    sys.stdout.buffer.write(msgspec.json.encode(find()) + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _heard(pidfd: int, answer: int, output: bytearray, until: float) -> bool:
    """Read output until the process ends, even if a child keeps the pipe open. Return True if it ended in time.

    answer: read end of the pipe, non-blocking. output: what is read is appended. until: deadline on time.monotonic().
    """
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    poller.register(answer, select.POLLIN)
    while (left_s := until - time.monotonic()) > 0:
        ready = {fd for fd, _ in poller.poll(left_s * 1000)}
        if answer in ready and not _read(answer, output):
            poller.unregister(answer)
        if pidfd in ready:
            while _read(answer, output):
                pass
            return True
    return False


def _read(answer: int, output: bytearray) -> bool:
    with contextlib.suppress(BlockingIOError):
        chunk = os.read(answer, _CHUNK_BYTES)
        output += chunk
        return bool(chunk)
    return False


def _end(pid: int, pidfd: int) -> process_end.Exit | None:
    """End a hanging process: SIGTERM, then SIGKILL, which can freeze a GPU. Return its exit; None if it survived."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal.pidfd_send_signal(pidfd, number)
        if process_end.ends_within(pidfd, _PATIENCE_S):
            return process_end.reap(pid)
    return None


def _understood(output: bytes, exit_: process_end.Exit | None, kind: type[T]) -> T | Silence:
    lines = [line.strip() for line in output.decode("utf-8", errors="replace").splitlines() if line.strip()]
    if exit_ is None or exit_.code == 0:
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):
                return msgspec.json.decode(line, type=kind)
    return Silence(end="cause unknown" if exit_ is None else exit_.description, last_line=lines[-1] if lines else "")
