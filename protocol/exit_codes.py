"""Exit codes of the commands and of workers."""

import enum
from typing import Final


class ExitCode(enum.IntEnum):
    """Exit status of every command."""

    PASSED = 0
    MISSED = 1
    USAGE = 2
    HARDWARE = 3
    INCOMPLETE = 4
    INTERNAL = 5


MEANING: Final = {
    ExitCode.PASSED: "passed; a slow GPU, WARN, degraded and does-not-fit results are allowed (with --strict: 1)",
    ExitCode.MISSED: "a threshold was missed, a regression, or a wrong result of an operator or a compiled model",
    ExitCode.USAGE: "error in usage or configuration; nothing ran",
    ExitCode.HARDWARE: "a hardware verdict FAIL",
    ExitCode.INCOMPLETE: "incomplete: interrupted, a planned cell without a result, a GPU whose health or burn-in is "
    "UNKNOWN, or a cell that a comparison could not judge",
    ExitCode.INTERNAL: "gpubench itself failed",
}


class WorkerExit(enum.IntEnum):
    """Exit status of a worker. Zero only follows an acknowledged outcome."""

    DONE = 0
    NOT_ADOPTED = 101
    WRONG_ROOMS = 102
    NO_ASSIGNMENT = 103
    DISMISSED = 104
    NO_ACKNOWLEDGEMENT = 105
