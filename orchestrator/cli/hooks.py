"""Commands of the user's that are told how a run ended: --on-finish and --on-failure.

Run without a shell, in a session of their own, with an empty standard input and a time limit. What they are told is in
their environment:

    GPUBENCH_EXIT_CODE    how the command ends, 0 to 5
    GPUBENCH_VERDICT      the report's verdict in a word; empty where there is no report
    GPUBENCH_SUMMARY      the end in one line: the last of standard output, or the error
    GPUBENCH_RUN_FOLDER   the run's folder; empty where none was begun
    GPUBENCH_REPORT       the report's file, the first of them where there are several; empty where there is none

Nothing that they do changes how the run ended: what goes wrong with them is a sentence for the user.
"""

import os
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.errors import ConfigError
from orchestrator.system import log_files, process_end
from orchestrator.system.stop_signals import StopSignals

OPTIONS: Final = ("--on-finish", "--on-failure")

LIMIT_S: Final = 60.0
"""Enough for a mail or a web hook that answers slowly; a node that waits for its next job is not held up for long."""

_LOOK_S: Final = 0.1
"""How often its log is held below the cap: `yes` writes a gigabyte a second."""
_PATIENCE_S: Final = 5.0
"""For each step of ending one that takes too long: SIGTERM, SIGKILL."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. Paths are None, and the verdict is empty, where there is no such thing."""

    exit_code: int
    verdict: str
    summary: str
    folder: Path | None
    report: Path | None


def parse(line: str | None, option: str) -> tuple[str, ...]:
    """The words of a command; none where the option was not given.

    Raises ConfigError naming the option, for what cannot be split and for a program that is not there: the time to
    find that out is before the night, not after it.
    """
    if line is None:
        return ()
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(f"{option}: {line!r} cannot be split into words: {error}") from error
    if not words:
        raise ConfigError(f"{option}: expected a command, got an empty text")
    if shutil.which(words[0]) is None:
        raise ConfigError(
            f"{option}: there is no program {words[0]!r} that you may run. It is called without a shell: for pipes and "
            f"variables, write {option} \"sh -c '…'\""
        )
    return words


def recorded(words: Iterable[str]) -> tuple[str, ...]:
    """A command line as it may be kept: of a command that is told, its program alone. What follows may be a secret."""
    kept: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if kept and kept[-1] in OPTIONS:
            kept.append(_program(word))
        elif equals and option in OPTIONS:
            kept.append(f"{option}={_program(value)}")
        else:
            kept.append(word)
    return tuple(kept)


def call(words: tuple[str, ...], end: End, log: Path | None, limit_s: float = LIMIT_S) -> str:
    """Run a command to its end, or to its time limit. What went wrong, in words; empty where nothing did.

    log: takes what it prints, no more than other logs; where it cannot be written, or is None, this process's standard
    error does, and where that is closed, nothing.
    """
    process = None
    try:
        with StopSignals() as held_back:  # one that came in between would leave the process behind, its number unknown
            process = _started(words, end, log)
        if held_back.requests:
            raise KeyboardInterrupt
        code = _wait(process, log, limit_s)
    except OSError as error:
        return f"could not be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        _end(process)
        return f"took longer than {limit_s:g} s and was ended"
    except KeyboardInterrupt:
        _end(process)
        return "was interrupted"
    return "" if code == 0 else f"ended: {_exit_of(code).words}"


def environment(end: End) -> Mapping[str, str]:
    """What a command is told."""
    return {
        "GPUBENCH_EXIT_CODE": str(end.exit_code),
        "GPUBENCH_VERDICT": end.verdict,
        "GPUBENCH_SUMMARY": end.summary,
        "GPUBENCH_RUN_FOLDER": "" if end.folder is None else str(end.folder.absolute()),
        "GPUBENCH_REPORT": "" if end.report is None else str(end.report.absolute()),
    }


def _program(line: str) -> str:
    """The first word of a command that `parse` has taken, and that there is more."""
    try:
        first, *rest = shlex.split(line)
    except ValueError:  # of an option that was given twice, the last one alone was looked at
        return "…"
    return f"{first} …" if rest else first


def _started(words: tuple[str, ...], end: End, log: Path | None) -> subprocess.Popen[bytes]:
    output = _open(log)
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | environment(end),
            start_new_session=True,
        )
    finally:
        os.close(output)


def _open(log: Path | None) -> int:
    """Where a command prints: a descriptor of the caller's own, to be closed.

    Nobody is to be left untold because the folder of the run is gone, or its disk read-only.
    """
    if log is not None:
        with suppress(OSError):
            return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    with suppress(OSError):
        return os.dup(2)
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _wait(process: subprocess.Popen[bytes], log: Path | None, limit_s: float) -> int:
    """Its exit code, when it has ended. Raises subprocess.TimeoutExpired after the limit."""
    end = time.monotonic() + limit_s
    while True:
        left_s = end - time.monotonic()
        try:
            return process.wait(min(max(left_s, 0), _LOOK_S))
        except subprocess.TimeoutExpired:
            if left_s <= 0:
                raise
        finally:
            if log is not None:
                log_files.hold_below_cap(log)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    """End a command and what it started, if it was started. One that cannot be killed is left to the kernel.

    It is reaped last: until then nobody else can have its number, which is also that of its group.
    """
    if process is None:
        return
    with StopSignals():
        pidfd = os.pidfd_open(process.pid)
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                os.killpg(process.pid, number)
                select.select([pidfd], [], [], _PATIENCE_S)
        finally:
            os.close(pidfd)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)


def _exit_of(code: int) -> process_end.Exit:
    return process_end.Exit(code=code, signal=None) if code >= 0 else process_end.Exit(code=None, signal=-code)
