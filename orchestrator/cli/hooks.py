"""Run the user's commands of --on-finish and --on-failure when a run ends.

They run without a shell, in their own session, with an empty standard input, a time limit, and this environment:

    GPUBENCH_EXIT_CODE    exit code of the command, 0 to 5
    GPUBENCH_VERDICT      the report's verdict in a word; empty without a report
    GPUBENCH_SUMMARY      the last line of standard output, or the error
    GPUBENCH_RUN_FOLDER   the run's folder; empty if there is none
    GPUBENCH_REPORT       the report's first file; empty without a report

Their failures are reported to the user, and never change how the run ended.
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

from orchestrator.errors import ConfigError
from orchestrator.system import log_files, process_end
from orchestrator.system.stop_signals import StopSignals

OPTIONS: Final = ("--on-finish", "--on-failure")

LIMIT_S: Final = 60.0  # enough for a slow mail server or web hook, short for a node that waits for its next job

_LOOK_S: Final = 0.1  # between checks of the log's size: `yes` writes 1 GB/s
_PATIENCE_S: Final = 5.0  # after SIGTERM, and after SIGKILL


def parse(line: str | None, option: str) -> tuple[str, ...]:
    """Return the words of the user's command `line`; () for None. option: name of the option, for the error.

    Raises ConfigError for a command that cannot be split, is empty, or names a missing program.
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
    """Return gpubench's command line with only the program of each user command: "mail …". Arguments may be secret."""
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


def call(words: tuple[str, ...], environment: Mapping[str, str], log: Path | None, limit_s: float = LIMIT_S) -> str:
    """Run the user's command, ended after `limit_s`. Return how it failed, such as "ended: exit code 3", else "".

    environment: added to that of this process. log: file to append its output to; None: standard error. A missing
    program and Ctrl-C are returned as text, too.
    """
    process = None
    try:
        with StopSignals() as held_back:  # a signal in between would orphan the process, its PID unknown
            process = _started(words, environment, log)
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
    if code == 0:
        return ""
    ended = process_end.Exit(code=code if code > 0 else None, signal=-code if code < 0 else None)
    return f"ended: {ended.description}"


def _program(line: str) -> str:
    try:
        first, *rest = shlex.split(line)
    except ValueError:  # of an option that was given twice, only the last value was checked
        return "…"
    return f"{first} …" if rest else first  # arguments may be secrets


def _started(words: tuple[str, ...], environment: Mapping[str, str], log: Path | None) -> subprocess.Popen[bytes]:
    output = _open(log)
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    finally:
        os.close(output)


def _open(log: Path | None) -> int:
    if log is not None:
        with suppress(OSError):  # a missing or read-only run folder must not prevent the notification
            return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    with suppress(OSError):
        return os.dup(2)
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _wait(process: subprocess.Popen[bytes], log: Path | None, limit_s: float) -> int:
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
    """End a command and its process group. The command is reaped last, so that no other process can get its PID."""
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
