"""The faults that chaos knows, and the names that a run may give them. Data alone.

planted: a cell does it to itself, once (worker/workloads/fault.py). struck: from outside, when the seed says. names:
the categories that a launch may fail with; where it is empty, no launch may be lost.
"""

import enum
import signal
from dataclasses import dataclass
from typing import Final


class Target(enum.StrEnum):
    WORKER = "worker"
    ZYGOTE = "zygote"
    TELEMETRY = "telemetry"
    ORCHESTRATOR = "orchestrator"


class Deed(enum.StrEnum):
    SIGNAL = "one signal"
    TWICE = "the signal twice"
    PAUSE = "the signal, which is SIGSTOP, and SIGCONT a little later"
    FULL_DISK = "it can write no file beyond the size that its files have"


@dataclass(frozen=True)
class Kind:
    """A fault from outside. weight: how often it is chosen, relative to the others. pause_s: its shortest and longest.

    ends: whether it ends the process of the orchestrator, so that the run has to be resumed. said: what its log says.
    """

    name: str
    target: Target
    deed: Deed
    weight: int
    number: signal.Signals = signal.SIGSTOP
    names: frozenset[str] = frozenset()
    pause_s: tuple[float, float] = (0.0, 0.0)
    ends: bool = False
    said: str = ""


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


DIED: Final = _names("zygote died")
STOPPED: Final = _names("stopped on request")
HALTED: Final = _names("halted while it was measured")

_W, _Z, _T, _O = Target
KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("worker: SIGKILL", _W, Deed.SIGNAL, 16, signal.SIGKILL, _names("killed, cause unknown")),
        Kind("worker: SIGTERM", _W, Deed.SIGNAL, 4, signal.SIGTERM, _names("killed, cause unknown")),
        Kind("worker: SIGSEGV", _W, Deed.SIGNAL, 8, signal.SIGSEGV, _names("crashed")),
        Kind("worker: SIGABRT", _W, Deed.SIGNAL, 4, signal.SIGABRT, _names("crashed")),
        Kind("worker: SIGSTOP", _W, Deed.SIGNAL, 8, signal.SIGSTOP, _names("deadline exceeded") | HALTED),
        Kind("worker: SIGSTOP, SIGCONT", _W, Deed.PAUSE, 4, names=HALTED, pause_s=(0.02, 0.5)),
        Kind("worker: disk full", _W, Deed.FULL_DISK, 5),
        Kind("zygote: SIGKILL", _Z, Deed.SIGNAL, 7, signal.SIGKILL, DIED, said="the zygote ended"),
        Kind("zygote: SIGSTOP", _Z, Deed.SIGNAL, 2, signal.SIGSTOP, DIED),
        Kind("zygote: SIGSTOP, SIGCONT", _Z, Deed.PAUSE, 4, pause_s=(0.02, 1.5)),
        Kind("telemetry: SIGKILL", _T, Deed.SIGNAL, 4, signal.SIGKILL, said="the telemetry process ended"),
        Kind("telemetry: SIGSTOP", _T, Deed.SIGNAL, 1, signal.SIGSTOP),
        Kind("telemetry: SIGSTOP, SIGCONT", _T, Deed.PAUSE, 4, pause_s=(0.02, 2.0)),
        Kind("telemetry: disk full", _T, Deed.FULL_DISK, 3, said="cannot be written"),
        Kind("orchestrator: SIGKILL, resume", _O, Deed.SIGNAL, 5, signal.SIGKILL, ends=True),
        Kind("orchestrator: SIGSTOP, SIGCONT", _O, Deed.PAUSE, 6, pause_s=(0.02, 1.5)),
        Kind("orchestrator: SIGINT, resume", _O, Deed.SIGNAL, 2, signal.SIGINT, STOPPED, ends=True),
        Kind("orchestrator: SIGTERM twice, resume", _O, Deed.TWICE, 2, signal.SIGTERM, STOPPED, ends=True),
        Kind("orchestrator: disk full, resume", _O, Deed.FULL_DISK, 2, ends=True),
    )
}

PLANTED: Final = {
    "raise": "exception",
    "import error": "import error",
    "segfault": "crashed",
    "abort": "crashed",
    "kill": "killed, cause unknown",
    "leave without an outcome": "ended without an outcome",
    "not finite": "loss is not finite",
    "hang": "deadline exceeded",
    "hold the GIL": "deadline exceeded",
    "stop": "deadline exceeded",
    "leave an orphan": None,
}
"""What a cell does to itself → the name that its launch must have. None: the launch must not be lost."""

RETRIES: Final = {
    "crashed": 1,
    "killed, cause unknown": 1,
    "ended without an outcome": 1,
    "zygote died": 3,
    "halted while it was measured": 2,
    "interrupted": 5,
    "stopped on request": 10**6,
}
"""How often docs/failures.md lets a fresh process try again on the same device; never for the others."""
SIGNALS: Final = {"segfault": signal.SIGSEGV, "abort": signal.SIGABRT, "kill": signal.SIGKILL}
"""What a cell does to itself → the signal that ends it."""
ENDED_BY_SIGNAL: Final = _names("crashed", "killed, cause unknown")
INTERRUPTED: Final = "interrupted"
ZYGOTES: Final = 5
"""How many zygotes one process of the orchestrator starts before it gives up, as the end of its log says."""
