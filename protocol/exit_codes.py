"""Exit codes of the commands, and of workers (the processes that measure)."""

import enum
from typing import Final


class ExitCode(enum.IntEnum):
    """Exit status of every command. MEANING explains each in full.

    MISSED: missed threshold, regression or wrong output. USAGE: wrong usage or configuration, nothing ran. HARDWARE:
    the verdict on hardware is FAIL. INCOMPLETE: results or verdicts are missing. INTERNAL: gpubench itself failed.
    """

    PASSED = 0
    MISSED = 1
    USAGE = 2
    HARDWARE = 3
    INCOMPLETE = 4
    INTERNAL = 5


MEANING: Final = {
    ExitCode.PASSED: "passed. Slow GPUs, WARN verdicts and cells that ran out of memory are allowed (with --strict: 1)",
    ExitCode.MISSED: "a threshold was missed, a comparison found a regression, or an operator or a compiled model gave "
    "a wrong result",
    ExitCode.USAGE: "error in usage or configuration; nothing ran",
    ExitCode.HARDWARE: "the hardware got the verdict FAIL, in its health or in a burn-in",
    ExitCode.INCOMPLETE: "incomplete: interrupted, a launch failed or is missing, the health or burn-in of "
    "a GPU is UNKNOWN, or a cell or threshold could not be judged",
    ExitCode.INTERNAL: "gpubench itself failed",
}


class WorkerExit(enum.IntEnum):
    """Exit status of a worker.

    DONE: the orchestrator has acknowledged the outcome, be it a result or a failure. NOT_ADOPTED: the orchestrator did
    not become the parent. WRONG_ROOMS: gpubench was imported from another folder than the orchestrator's.
    NO_ASSIGNMENT: no cell to measure (Assign) arrived in time. DISMISSED: the orchestrator did not expect this launch.
    NO_ACKNOWLEDGEMENT: the outcome was sent, but no Ack arrived in time.
    """

    DONE = 0
    NOT_ADOPTED = 101
    WRONG_ROOMS = 102
    NO_ASSIGNMENT = 103
    DISMISSED = 104
    NO_ACKNOWLEDGEMENT = 105
