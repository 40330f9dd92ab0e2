"""What to do about a failed launch.

Pure data: the run's state machine follows it, the display and the report explain it, docs/failures.md is made from it.
"""

import enum
from typing import Final

import msgspec

from protocol.failure import Category


class Reaction(enum.StrEnum):
    """What happens next; the value is what people are told."""

    RETRY_SMALLER = "a fresh process tries half the batch"
    RETRY = "a fresh process tries once more"
    QUARANTINE = "the device is taken out of this run"
    GIVE_UP = "kept as a failure; the other cells go on"


class Rule(msgspec.Struct, frozen=True):
    """A reaction and why it is right. retries: how often RETRY is done; halving ends by itself."""

    reaction: Reaction
    retries: int
    why: str


ANY_NUMBER: Final = 1_000_000
_SPORADIC: Final = "may not happen again in a fresh process"
_REPEATS: Final = "would happen again"

POLICY: Final[dict[Category, Rule]] = {
    Category.DEVICE_LOST: Rule(Reaction.QUARANTINE, 0, "nothing more can run there"),
    Category.DEVICE_HARDWARE: Rule(Reaction.QUARANTINE, 0, "its results could not be trusted"),
    Category.DEVICE_UNAVAILABLE: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.DEVICE_NOT_FREED: Rule(
        Reaction.QUARANTINE, 0, "memory is held by nobody; later cells would be measured wrongly"
    ),
    Category.CUDA_STICKY: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.CUDA_ERROR: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.OUT_OF_MEMORY: Rule(Reaction.RETRY_SMALLER, 0, "a smaller batch needs less memory"),
    Category.HOST_OUT_OF_MEMORY: Rule(Reaction.RETRY, 1, "other processes may have left by then"),
    Category.IMPORT_ERROR: Rule(Reaction.GIVE_UP, 0, _REPEATS),
    Category.EXCEPTION: Rule(Reaction.GIVE_UP, 0, _REPEATS),
    Category.NOT_FINITE: Rule(Reaction.GIVE_UP, 0, _REPEATS),
    Category.WRONG_RESULT: Rule(Reaction.GIVE_UP, 0, "a finding, not an accident"),
    Category.CRASHED: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.KILLED: Rule(Reaction.RETRY, 1, _SPORADIC),
    Category.DEADLINE: Rule(Reaction.GIVE_UP, 0, "would cost as much time again"),
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
