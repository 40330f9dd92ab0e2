"""What to do about a failed launch, and about what happens to the run. Data alone.

The run's state machine follows it, the display and the report say it, `explain` prints it, docs/failures.md repeats it.
"""

import enum
from typing import Final

import msgspec

from protocol.failure import Category, Phase


class Reaction(enum.StrEnum):
    """What happens next; the value is what people are told."""

    RETRY = "a fresh process tries once more"
    RETRY_SMALLER = "a fresh process tries half the batch"
    RETRY_FEWER = "half as many cells run at once, and a fresh process tries once more"
    ELSEWHERE = "the same cell runs on another device, which tells a fault of the model from one of the device"
    SKIP_MODEL = "the model is skipped on every device"
    SKIP_EARLY = "before the first forward pass the model is skipped on every device; later the other cells go on"
    SKIP_BROKEN = (
        "while importing the model is skipped on every device, while building in that workload and precision alone; "
        "later the other cells go on"
    )
    QUARANTINE = "the device is taken out of this run"
    GIVE_UP = "kept as a failure; the other cells go on"


class Reach(enum.IntEnum):
    """How much of a model is launched no more once a failure is its own; the place of its name in slots.scopes."""

    MODEL = 0
    WORK = 1
    CELL = 2


class Rule(msgspec.Struct, frozen=True):
    """A reaction and why it is right.

    retries: fresh processes on the same device before the failure is final. ELSEWHERE comes after them; halving and
    what takes no retry come at once. skips: what is not launched any more where the model is at fault.
    """

    reaction: Reaction
    retries: int
    why: str
    skips: Reach = Reach.MODEL


ANY_NUMBER: Final = 1_000_000
STRIKES: Final = 2
"""Failures that follow a device, after which it is taken out of the run. A hardware verdict needs no second."""
HARDWARE: Final = frozenset({Category.DEVICE_LOST, Category.DEVICE_HARDWARE})
"""What is a verdict of the hardware by itself: it stands in the health of the device that it happened on."""
BEFORE_DEVICE: Final = frozenset({Phase.START, Phase.IMPORT})
"""Nothing has touched the device yet: what fails here cannot be its fault."""
POINTS_AT_DEVICE: Final = frozenset({Category.CUDA_STICKY, Category.CUDA_ERROR, Category.CRASHED, Category.DEADLINE})
"""How work on a sick GPU ends. Where no other GPU can be asked, two models in a row that end so take it out. Signals
from outside are not among them, because whoever sends them would take sound GPUs out, and a deadline that a stopped
process has missed does not count (SlotState.stopped); nor is a loss that is not finite,
because two models in the same precision may well diverge."""
BEFORE_FIRST_FORWARD: Final = frozenset({Phase.START, Phase.IMPORT, Phase.BUILD})
"""What fails in one of these has nothing to do with the batch."""
_SPORADIC: Final = "may not happen again in a fresh process"
_REPEATS: Final = "would happen again"
_ALIKE: Final = "every other cell of it would fail alike"
_WHOSE: Final = "its cause may be the model or the device"

POLICY: Final[dict[Category, Rule]] = {
    Category.DEVICE_LOST: Rule(Reaction.QUARANTINE, 0, "nothing more can run there"),
    Category.DEVICE_HARDWARE: Rule(Reaction.QUARANTINE, 0, "its results could not be trusted"),
    Category.DEVICE_UNAVAILABLE: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.DEVICE_NOT_FREED: Rule(
        Reaction.QUARANTINE, 0, "memory is held by nobody; later cells would be measured wrongly"
    ),
    Category.TOO_HOT: Rule(Reaction.QUARANTINE, 0, "more load would make it hotter still"),
    Category.CUDA_STICKY: Rule(Reaction.ELSEWHERE, 0, _WHOSE),
    Category.CUDA_ERROR: Rule(Reaction.ELSEWHERE, 1, _WHOSE, Reach.CELL),
    Category.OUT_OF_MEMORY: Rule(Reaction.RETRY_SMALLER, 0, "a smaller batch needs less memory"),
    Category.HOST_OUT_OF_MEMORY: Rule(Reaction.RETRY_FEWER, 1, "cells that run at once share the host's memory"),
    Category.IMPORT_ERROR: Rule(Reaction.SKIP_EARLY, 0, _ALIKE),
    Category.NOT_BUILT: Rule(Reaction.SKIP_MODEL, 0, _ALIKE),
    Category.EXCEPTION: Rule(Reaction.SKIP_BROKEN, 0, _REPEATS, Reach.WORK),
    Category.NOT_FINITE: Rule(
        Reaction.ELSEWHERE, 0, "with the same seed it is the same numbers everywhere", Reach.WORK
    ),
    Category.CRASHED: Rule(Reaction.ELSEWHERE, 1, _WHOSE),
    Category.KILLED: Rule(Reaction.ELSEWHERE, 1, "its cause may be outside, the model or the device", Reach.CELL),
    Category.DEADLINE: Rule(
        Reaction.ELSEWHERE,
        0,
        "here it would cost as much time again; its cause may be the model or the device",
        Reach.CELL,
    ),
    Category.COMMUNICATION: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.NO_OUTCOME: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.UNKILLABLE: Rule(Reaction.QUARANTINE, 0, "the process still holds the device"),
    Category.START_FAILED: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.ZYGOTE_DIED: Rule(Reaction.RETRY, 3, "the launch never began"),
    Category.PROTOCOL: Rule(Reaction.GIVE_UP, 0, _REPEATS),
    Category.THROTTLED: Rule(Reaction.RETRY, 2, "the device may have cooled down"),
    Category.CONTAMINATED: Rule(Reaction.RETRY, 1, "the other process may have left by then"),
    Category.STOPPED: Rule(Reaction.RETRY, ANY_NUMBER, "a person asked for it; `resume` goes on"),
    Category.RESULT_LOST: Rule(Reaction.RETRY, 5, "its file can be measured anew"),
    Category.INTERRUPTED: Rule(Reaction.RETRY, 5, "the orchestrator was killed, probably not by this cell"),
}

RUN: Final[dict[str, str]] = {
    "first SIGINT or SIGTERM": "no new cells; those that run get up to 20 s; report, exit code 4",
    "second SIGINT or SIGTERM": "everything is ended now; report, exit code 4",
    "SIGHUP": "ignored",
    "the orchestrator is killed": "the kernel ends its workers; `resume` goes on, finished results are kept",
    "the zygote dies": "running workers go on; it is started again, and so are the launches that were being forked",
    "CUDA does not work when a run begins or is resumed": "nothing is run, exit code 2 with CUDA's code and what to do",
    "NVML hangs when a run begins or is resumed": "nothing is run, exit code 2 with what to do",
    "NVML hangs later, or is missing": "the run goes on; telemetry fields are null and say why, health is UNKNOWN",
    "the disk is full": "the run stops with a message, in the journal too, exit code 5; what was finished is kept",
    "no room for the run's first files, or for temporary ones": "nothing is begun, exit code 2",
    "no room for the report": "every format that fits is written, exit code 5; `resume` writes the others",
    "the host's clock is set": "it is written down; every deadline is on the monotonic clock",
    "the orchestrator, or its machine, is paused": "it is written down; only a time limit goes on meanwhile",
    "the terminal is closed or stopped": "the run goes on without it",
    "a child prints without end": "its log is held below a cap by giving up the middle; the child is never blocked",
}
"""What happens to the run as a whole, and what is done."""


def retries(rule: Rule) -> str:
    """How often a fresh process tries on the same device, in words; empty for never."""
    return "any number" if rule.retries == ANY_NUMBER else str(rule.retries or "")
