"""Failures of processes that ended without an outcome, and failures with an outside cause. Pure."""

import signal
from typing import Final

import msgspec

from orchestrator.state.failure_policy import BEFORE_FIRST_FORWARD, POLICY, Hardware, Trait, has_trait
from orchestrator.system.process_end import Exit
from protocol.exit_codes import WorkerExit
from protocol.failure import Category, Failure, Phase

_CRASHES: Final = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS}
)

_NO_THREAD: Final = "Thread creation failed"

_EXITS: Final = {
    WorkerExit.NOT_ADOPTED: (Category.START_FAILED, "the process is not a child of the orchestrator"),
    WorkerExit.WRONG_ROOMS: (
        Category.START_FAILED,
        "its packages are in another folder; see stderr.log",
    ),
    WorkerExit.NO_ASSIGNMENT: (Category.START_FAILED, "the process got no assignment from the orchestrator"),
    WorkerExit.DISMISSED: (Category.START_FAILED, "it was dismissed"),
    WorkerExit.NO_ACKNOWLEDGEMENT: (Category.PROTOCOL, "the orchestrator did not acknowledge the outcome"),
}


def ended(exit_: Exit | None, phase: Phase, *, host_oom_kills: bool, memory_limited: bool, stderr_tail: str) -> Failure:
    """Return the failure of a process that ended by itself in `phase` and reported no outcome.

    exit_: None if the process was never created. host_oom_kills: whether the kernel's count of out-of-memory kills rose
    since the process started. memory_limited: whether RLIMIT_DATA or RLIMIT_AS applies, so that a thread may lack
    memory. stderr_tail: the end of its stderr, kept as evidence, or "".
    """
    evidence = {"stderr": stderr_tail} if stderr_tail else {}
    if exit_ is None:
        return Failure(
            category=Category.START_FAILED, message="the process was not created", phase=phase, evidence=evidence
        )
    if exit_.signal is not None:
        category, message = _signalled(exit_.signal, exit_.description, host_oom_kills=host_oom_kills)
    elif exit_.code in _EXITS:
        category, words = _EXITS[WorkerExit(exit_.code)]
        message = f"{exit_.description}: {words}"
    elif memory_limited and _NO_THREAD in stderr_tail:
        category, message = Category.OUT_OF_MEMORY, f"{exit_.description}: no memory for a thread"
    else:
        category, message = Category.NO_OUTCOME, f"{exit_.description} without reporting an outcome"
    return Failure(
        category=category, message=message, phase=phase, code=exit_.code, signal=exit_.signal, evidence=evidence
    )


def outside(failure: Failure, hazard: Failure | None, broken: str) -> Failure:
    """Return the failure of a process. If a GPU fault caused it, take category, message and device from that fault.

    hazard: reported fault or overheating of a GPU of the launch, or None. It is the cause if a hardware fault may lead
    to such a failure. In all other cases the answer is that of `collateral`, with `broken`.
    """
    if hazard is None or POLICY[failure.category].hardware not in (Hardware.POINTS, Hardware.MAY):
        return collateral(failure, broken)
    ended_as = f"{failure.category}: {failure.message}"
    return msgspec.structs.replace(
        failure,
        category=hazard.category,
        message=hazard.message,
        device=hazard.device,
        evidence={"ended_as": ended_as} | failure.evidence,
    )


def beside(failure: Failure, others: str) -> Failure:
    """Return the failure, with category CONTAMINATED if other processes on its GPU may have caused it.

    others: these processes, such as "PID 4711 python", or "". They can only cause an out-of-memory or time-out failure.
    Any other failure is returned unchanged.
    """
    words = POLICY[failure.category].beside_others
    if not others or not words:
        return failure
    message = f"{others} also used the GPU, and the launch {words}: {failure.message}"
    return msgspec.structs.replace(failure, category=Category.CONTAMINATED, message=message)


def collateral(failure: Failure, broken: str) -> Failure:
    """Return the failure, with category DEVICE_UNAVAILABLE if broken other GPUs may have caused it.

    broken: labels of these GPUs, such as "GPU 1", or "". They can only cause a failure before the first forward pass,
    and only a CUDA error or a crash (such as SIGSEGV). Any other failure is returned unchanged.
    """
    if not broken or not has_trait(failure.category, Trait.CUDA_START) or failure.phase not in BEFORE_FIRST_FORWARD:
        return failure
    message = f"{failure.message} (perhaps a consequence: {broken} failed before)"
    return msgspec.structs.replace(failure, category=Category.DEVICE_UNAVAILABLE, message=message)


def _signalled(number: int, words: str, *, host_oom_kills: bool) -> tuple[Category, str]:
    if number == signal.SIGKILL and host_oom_kills:
        return Category.HOST_OUT_OF_MEMORY, "killed by the kernel because the host ran out of memory"
    if number in _CRASHES:
        return Category.CRASHED, words
    return Category.KILLED, words
