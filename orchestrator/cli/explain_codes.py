"""Codes found in logs, for `explain`. Pure.

0 to 5, "exit code 4"    the end of a command (protocol/exit_codes.py)
SIGKILL, SIGTERM, …      what happens to a launch, and to the run, that gets the signal
79, "Xid 79"             what the driver requests (gpu/health/xids.py); a bare number only if listed there
"""

import re
import signal
from collections.abc import Iterator
from typing import Final

from orchestrator.engine.launches import process_failures
from orchestrator.gpu.health import xids
from orchestrator.gpu.health.judges import Action
from orchestrator.state.failure_policy import RUN
from orchestrator.system.process_end import Exit
from protocol.exit_codes import MEANING, ExitCode
from protocol.failure import Category, Phase

_HALTS: Final = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_IGNORED: Final = frozenset(
    {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}  # by the kernel
    | {signal.SIGPIPE, signal.SIGXFSZ}  # by Python
    | {signal.SIGHUP}  # by the orchestrator (signals.py), from which it is inherited
)

_STEPS: Final = {
    xids.XidKind.APPLICATION: "restart the application",
    xids.XidKind.MEMORY: f"{Action.RESET} when it is idle",
    xids.XidKind.RESET: Action.RESET,
    xids.XidKind.MACHINE: Action.REBOOT,
}
"""What NVIDIA's documentation of Xid errors recommends."""
_KILLED: Final = "the orchestrator is killed"


def lines(what: str) -> tuple[str, ...]:
    """Return lines that explain a code such as "exit code 4", "SIGKILL" or "Xid 79"; () if it is unknown."""
    words = " ".join(what.lower().split())
    if match := re.fullmatch(r"(?:exit code )?([0-5])", words):
        code = ExitCode(int(match[1]))
        return (f"exit code {int(code)}: {MEANING[code]}",)
    if match := re.fullmatch(r"(xid )?([0-9]{1,4})", words):
        return tuple(_xid(int(match[2]), named=match[1] is not None))
    number = signal.Signals.__members__.get(words.upper())
    return () if number is None else tuple(_signal(number))


def _xid(number: int, *, named: bool) -> Iterator[str]:
    kind = xids.kind(number)
    if kind is xids.XidKind.SUSPECT and not named:
        return
    step = f". What to do: {_STEPS[kind]}" if kind in _STEPS else ""
    yield f"Xid {number}, an error number of NVIDIA's driver: {kind}{step}"
    if kind in xids.ENDS_USE:
        yield f"The run quarantines the GPU. See `explain {Category.DEVICE_HARDWARE}`"


def _signal(number: signal.Signals) -> Iterator[str]:
    words = f"{number.name} ({number.value})"
    kinds = _kinds(number)
    if kinds:
        named = " or ".join(f"`explain {kind}`" for kind in kinds)
        yield f"{words} to the process of a launch: see {named}"
    else:
        yield f"{words} to the process of a launch: ignored"
    for event, done in RUN.items():
        if number.name in event.split():
            yield f"{event} to the orchestrator: {done}"
    if number == signal.SIGKILL:
        yield f"{number.name} to the orchestrator: {RUN[_KILLED]}"


def _kinds(number: signal.Signals) -> tuple[Category, ...]:
    if number in _IGNORED:
        return ()
    if number in _HALTS:
        return (Category.DEADLINE,)
    left = Exit(code=None, signal=number)
    found = (
        process_failures.ended(
            left, Phase.MEASURE, host_oom_kills=kernel, memory_limited=False, stderr_tail=""
        ).category
        for kernel in (False, True)
    )
    return tuple(dict.fromkeys(found))
