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
    WorkerExit.NOT_ADOPTED: (Category.START_FAILED, "it was not adopted by the orchestrator"),
    WorkerExit.WRONG_ROOMS: (Category.START_FAILED, "its packages come from another folder; stderr.log names it"),
    WorkerExit.NO_ASSIGNMENT: (Category.START_FAILED, "it heard nothing from the orchestrator"),
    WorkerExit.DISMISSED: (Category.START_FAILED, "it was dismissed"),
    WorkerExit.NO_ACKNOWLEDGEMENT: (Category.PROTOCOL, "its outcome was not acknowledged"),
}


def ended(exit_: Exit | None, phase: Phase, *, host_oom_kills: bool, memory_limited: bool, stderr_tail: str) -> Failure:
    """The failure of a launch that ended in `phase` without an outcome, and was not ended by the orchestrator.

    exit_: None where the process was never seen to end. host_oom_kills: the kernel's count of out-of-memory kills rose.
    memory_limited: under RLIMIT_DATA or RLIMIT_AS, where OpenMP ends the process when a thread finds no memory.
    """
    evidence = {"stderr": stderr_tail} if stderr_tail else {}
    if exit_ is None:
        return Failure(
            category=Category.START_FAILED, message="the process never came into being", phase=phase, evidence=evidence
        )
    if exit_.signal is not None:
        category, message = _signalled(exit_.signal, exit_.words, host_oom_kills=host_oom_kills)
    elif exit_.code in _EXITS:
        category, words = _EXITS[WorkerExit(exit_.code)]
        message = f"{exit_.words}: {words}"
    elif memory_limited and _NO_THREAD in stderr_tail:
        category, message = Category.OUT_OF_MEMORY, f"{exit_.words}: no memory for a thread"
    else:
        category, message = Category.NO_OUTCOME, f"{exit_.words}, but it told no outcome"
    return Failure(
        category=category, message=message, phase=phase, code=exit_.code, signal=exit_.signal, evidence=evidence
    )


def outside(failure: Failure, hazard: Failure | None, broken: str) -> Failure:
    """The failure with the grave one of its GPU, `hazard`, as its cause. broken: as for `collateral`."""
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
    """The failure as contamination where `others`, processes on the GPU, may have caused it."""
    words = POLICY[failure.category].beside_others
    if not others or not words:
        return failure
    message = f"{others} computed on the GPU too, and it {words}: {failure.message}"
    return msgspec.structs.replace(failure, category=Category.CONTAMINATED, message=message)


def collateral(failure: Failure, broken: str) -> Failure:
    """The failure without blame where CUDA may not have started because other GPUs, `broken`, had failed."""
    if not broken or not has_trait(failure.category, Trait.CUDA_START) or failure.phase not in BEFORE_FIRST_FORWARD:
        return failure
    message = f"{failure.message} (maybe a consequence: {broken} had failed before)"
    return msgspec.structs.replace(failure, category=Category.DEVICE_UNAVAILABLE, message=message)


def _signalled(number: int, words: str, *, host_oom_kills: bool) -> tuple[Category, str]:
    if number == signal.SIGKILL and host_oom_kills:
        return Category.HOST_OUT_OF_MEMORY, "killed by the kernel, which was out of memory"
    if number in _CRASHES:
        return Category.CRASHED, words
    return Category.KILLED, f"{words}, cause unknown"
