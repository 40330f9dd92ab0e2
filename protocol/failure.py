"""Failures of launches (attempts to measure a cell) and their categories. See docs/failures.md."""

import enum
from typing import Final

import msgspec


class Category(enum.StrEnum):
    """Category of a failure, as the report names it. docs/failures.md has the others.

    CUDA_STICKY: a CUDA error after which the process cannot continue; CUDA_ERROR: any other of CUDA or its libraries.
    DEVICE_UNAVAILABLE: CUDA cannot be used on the device. DEVICE_NOT_FREED: the process ended, and its GPU memory is
    still in use. NOT_BUILT: the user's code makes no model. UNSUPPORTED: torch.compile lacks a compiler or Triton, or
    the implementation of an operator cannot compute it here. CRASHED: ended by SIGSEGV, SIGABRT or a similar signal;
    KILLED: by another one. NO_OUTCOME: the process exited without a result or an error. HALTED: the process, its
    container or the machine was paused during warm-up or measurement. STOPPED: by a stop request or the time limit of
    the run; INTERRUPTED: the journal has no end of the launch, because the orchestrator died.
    """

    # The device
    DEVICE_LOST = "device lost"
    DEVICE_HARDWARE = "device hardware error"
    DEVICE_UNAVAILABLE = "device unavailable"
    DEVICE_NOT_FREED = "device memory not freed"
    TOO_HOT = "device too hot"
    CUDA_STICKY = "CUDA error that poisons the process"
    CUDA_ERROR = "CUDA error"
    # Memory
    OUT_OF_MEMORY = "out of memory"
    HOST_OUT_OF_MEMORY = "host out of memory"
    # The model, or the user's code
    IMPORT_ERROR = "import error"
    NOT_BUILT = "model cannot be built"
    EXCEPTION = "exception"
    NOT_FINITE = "loss is not finite"
    UNSUPPORTED = "unsupported"
    # Several devices
    COMMUNICATION = "communication between devices failed"
    # The process
    CRASHED = "crashed"
    KILLED = "killed, cause unknown"
    DEADLINE = "deadline exceeded"
    NO_OUTCOME = "ended without an outcome"
    UNKILLABLE = "cannot be killed"
    # The machinery
    START_FAILED = "could not be started"
    ZYGOTE_DIED = "zygote died"
    PROTOCOL = "protocol error"
    # Validity of the result
    THROTTLED = "throttled"
    CONTAMINATED = "contaminated by another process"
    HALTED = "halted while it was measured"
    # The run
    INTERRUPTED = "interrupted"
    STOPPED = "stopped on request"
    RESULT_LOST = "result lost"


class Phase(enum.StrEnum):
    """Phase of a launch. Each has a deadline of its own."""

    START = "start"
    IMPORT = "import"
    BUILD = "build"
    COMPILE = "compile"
    WARM_UP = "warm-up"
    MEASURE = "measure"
    FINISH = "finish"


MESSAGE_LIMIT: Final = 2_000
TRACEBACK_LIMIT: Final = 16_000


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason why a launch has no result. phase: in which the launch failed. message: one line.

    traceback: the end of it, at most TRACEBACK_LIMIT characters; None without an exception in the worker.
    code: CUDA's error code, or the exit code of a process that reported no outcome; else None.
    signal: number of the signal that ended the process. exception: name of the exception's type. device: UUID of the
    failed one of several devices; unset if unknown, or if there is one device. stopped: True if the process was stopped
    (state T of /proc) at its deadline, else unset. evidence: name → further facts for the report, such as free memory.
    """

    category: Category
    message: str
    phase: Phase
    code: int | None = None
    signal: int | None = None
    exception: str | None = None
    traceback: str | None = None
    device: str | msgspec.UnsetType = msgspec.UNSET
    stopped: bool | msgspec.UnsetType = msgspec.UNSET
    evidence: dict[str, str] = {}
