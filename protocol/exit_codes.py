"""Exit codes of the commands, and of workers (the processes that measure)."""

import enum
from typing import Final


class ExitCode(enum.IntEnum):
    """Exit status of every command. MEANING explains each."""

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
    """Exit status of a worker.

    DONE: the orchestrator has acknowledged the outcome. NOT_ADOPTED: the orchestrator did not become the parent.
    WRONG_ROOMS: the project's packages come from another folder than the orchestrator's. NO_ASSIGNMENT: no work was
    received. DISMISSED: the launch was no longer needed.
    """

    DONE = 0
    NOT_ADOPTED = 101
    WRONG_ROOMS = 102
    NO_ASSIGNMENT = 103
    DISMISSED = 104
    NO_ACKNOWLEDGEMENT = 105
