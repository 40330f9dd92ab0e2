"""How a run reacts to each category of failure and event. docs/failures.md is generated from this file."""

import enum
from typing import Final

import msgspec

from protocol.failure import Category, Phase


class Reaction(enum.StrEnum):
    """The next step after a failure. Each value is the text in reports."""

    RETRY = "the cell runs again in a fresh process"
    RETRY_SMALLER = "the cell runs again in a fresh process, with half the batch"
    RETRY_FEWER = "half as many cells run at once, and the cell runs again in a fresh process"
    ELSEWHERE = "the same cell runs on another device, to find out whether the model or the device is at fault"
    SKIP_MODEL = "the model is skipped on every device"
    SKIP_EARLY = (
        "after an error before the first forward pass, the model is skipped on every device; after a later error, only "
        "this cell fails"
    )
    SKIP_BROKEN = (
        "after an error during import, the model is skipped on every device; after an error during build, it is "
        "skipped in this workload (inference, training …), precision and input size; after a later error, only this "
        "cell fails"
    )
    QUARANTINE = "the device is quarantined"
    NOT_SUPPORTED = "the other launches of the cell are skipped, without counting as failed; other cells continue"
    GIVE_UP = "the cell has failed; other cells continue"


class Reach(enum.IntEnum):
    """How much of a faulty model is skipped. Each value is the index of the name to skip in `slots.scopes`.

    MODEL: all of it. WORK: one workload in one precision at one input size. CELL: that workload at one batch size only.
    """

    MODEL = 0
    WORK = 1
    CELL = 2


class Hardware(enum.Enum):
    """What a failure says about the hardware of its device.

    VERDICT: the hardware is faulty. POINTS: it may be; if two models in a row fail like this, a GPU that cannot be
    compared with another one is quarantined. MAY: it may be, but without another device to compare with, no GPU is
    quarantined for it. NO: it is not the cause. If the driver reported a GPU fault before a failure of POINTS or MAY,
    that fault is the cause.
    """

    VERDICT = enum.auto()
    POINTS = enum.auto()
    MAY = enum.auto()
    NO = enum.auto()


class Sign(enum.IntEnum):
    """How surely a process's failure shows why its launch on several devices failed, surest first.

    LOST: the GPU is gone. DEVICE: its hardware or its temperature. CUDA: an error of CUDA. EXCEPTION: a Python
    exception. OTHER: anything else, such as a signal. CONSEQUENCE: the failure may follow from another process's.
    """

    LOST = enum.auto()
    DEVICE = enum.auto()
    CUDA = enum.auto()
    EXCEPTION = enum.auto()
    OTHER = enum.auto()
    CONSEQUENCE = enum.auto()


class Trait(enum.Flag):
    """More properties of a category of failure. Members combine with |.

    HELD_BACK: the launch waits 1 s for the driver to name the cause. CUDA_START: a healthy GPU may fail like this after
    the hardware of another GPU has failed. FROM_OUTSIDE: it happens on healthy devices too. WITH_RUN: the process ended
    because the run did. REPEATED: the run or a resume measures the cell again; until then, it is missing, not failed.
    ROOT_CAUSE: it explains other failures of the run. NO_ROOT_CAUSE: it explains no other failure.
    """

    NONE = 0
    HELD_BACK = enum.auto()
    CUDA_START = enum.auto()
    FROM_OUTSIDE = enum.auto()
    WITH_RUN = enum.auto()
    REPEATED = enum.auto()
    ROOT_CAUSE = enum.auto()
    NO_ROOT_CAUSE = enum.auto()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about a category of failure.

    reaction: what the run does next. retries: further attempts on the same device, in fresh processes, before the
    failure is final; ANY_NUMBER: no limit. why: reason for the reaction. seen: how the failure is recognised. advice:
    what the user can do, in sentences. hardware: what the failure says about the hardware. sign: how surely it is the
    cause if a launch on several devices failed. traits: more properties. skips: how much of the model is skipped if the
    model is at fault (see fault_placement.skip_model). beside_others: what the launch did ("ran out of memory") if
    another process on its GPU may be the cause; else "".
    """

    reaction: Reaction
    retries: int
    why: str
    seen: str
    advice: str
    hardware: Hardware
    sign: Sign
    traits: Trait
    skips: Reach = Reach.MODEL
    beside_others: str = ""


ANY_NUMBER: Final = 1_000_000
STRIKES: Final = 2
"""Failures attributed to a device before it is quarantined. A failure that proves faulty hardware suffices alone."""
BEFORE_DEVICE: Final = frozenset({Phase.START, Phase.IMPORT})
"""Phases of a launch that do not touch the device."""
BEFORE_FIRST_FORWARD: Final = frozenset({Phase.START, Phase.IMPORT, Phase.BUILD})
"""Phases of a launch whose failures do not depend on the batch size."""
_SPORADIC: Final = "the failure may not recur in a fresh process"
_REPEATS: Final = "the failure would recur"
_ALIKE: Final = "every other cell of the model would fail too"
_WHOSE: Final = "the model or the device may be the cause"
_FREE: Final = "Look for other processes on the device (nvidia-smi), or request a smaller batch or input."
_READ: Final = "Read stderr.log and fault.log in the launch's folder."
_IF_AGAIN: Final = "If the error comes again, take the GPU out of service. The kernel log (dmesg) has its Xid."

POLICY: Final[dict[Category, Rule]] = {
    Category.DEVICE_LOST: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="nothing can run on the device",
        seen="NVML reports that the GPU is lost or needs a reset",
        advice=f"Reboot the machine. {_IF_AGAIN}",
        hardware=Hardware.VERDICT,
        sign=Sign.LOST,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.DEVICE_HARDWARE: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="results of the device cannot be trusted",
        seen=(
            "CUDA error 214 (uncorrectable ECC error), an Xid that shows a faulty GPU, uncorrected memory errors that "
            "NVML counted during the run, or a damaged InfoROM"
        ),
        advice=f"Reset the GPU. {_IF_AGAIN}",
        hardware=Hardware.VERDICT,
        sign=Sign.DEVICE,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.DEVICE_UNAVAILABLE: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why=_SPORADIC,
        seen="CUDA cannot be used on the device: error 35, 46, 100, 101, 802, 803 or 804",
        advice=("Run `gpubench-orchestrate doctor`. After a hardware error of another GPU, the cause may be that GPU."),
        hardware=Hardware.MAY,
        sign=Sign.CUDA,
        traits=Trait.HELD_BACK,
    ),
    Category.DEVICE_NOT_FREED: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="leaked memory would distort later cells",
        seen="30 s after the process ended, more GPU memory is in use than when the run started",
        advice="Find the process with this memory (nvidia-smi, fuser /dev/nvidia*). If there is none, reset the GPU.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.TOO_HOT: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="more load would heat the GPU further",
        seen=("in a burn-in, the GPU was at its slowdown limit or at --max-temperature for ten seconds"),
        advice=("Check the cooling: fans, dust, heat sinks, incoming air or water. Then start a new burn-in."),
        hardware=Hardware.NO,
        sign=Sign.DEVICE,
        traits=Trait.NONE,
    ),
    Category.CUDA_STICKY: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=0,
        why=_WHOSE,
        seen=(
            "a CUDA error after which the process cannot continue: 700 (illegal address), 710 (assert), 714 to 719, "
            "999, …"
        ),
        advice="If the model is at fault, run it with CUDA_LAUNCH_BLOCKING=1 to find the failing call.",
        hardware=Hardware.POINTS,
        sign=Sign.CUDA,
        traits=Trait.HELD_BACK | Trait.CUDA_START,
    ),
    Category.CUDA_ERROR: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=1,
        why=_WHOSE,
        seen="another error of CUDA, cuBLAS, cuDNN or a similar library",
        advice=_READ,
        hardware=Hardware.POINTS,
        sign=Sign.CUDA,
        traits=Trait.HELD_BACK | Trait.CUDA_START,
        skips=Reach.CELL,
    ),
    Category.OUT_OF_MEMORY: Rule(
        reaction=Reaction.RETRY_SMALLER,
        retries=0,
        why="a smaller batch needs less memory",
        seen=(
            "torch.OutOfMemoryError; CUDA error 2; a failed allocation of cuBLAS or cuDNN; on a CPU device, a failed "
            "allocation of host memory"
        ),
        advice=_FREE,
        hardware=Hardware.NO,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
        beside_others="ran out of memory",
    ),
    Category.HOST_OUT_OF_MEMORY: Rule(
        reaction=Reaction.RETRY_FEWER,
        retries=1,
        why="concurrent cells share the memory of the host",
        seen=("SIGKILL while the kernel's count of out-of-memory kills rose; or a process on a GPU got no host memory"),
        advice="Give the machine or the container more memory, or measure fewer devices at once (--solo).",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE,
    ),
    Category.IMPORT_ERROR: Rule(
        reaction=Reaction.SKIP_EARLY,
        retries=0,
        why=_ALIKE,
        seen="ImportError or ModuleNotFoundError",
        advice="Install the missing package. `gpubench-orchestrate info` shows the installed ones.",
        hardware=Hardware.NO,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
    ),
    Category.NOT_BUILT: Rule(
        reaction=Reaction.SKIP_MODEL,
        retries=0,
        why=f"your own code makes no model, so {_ALIKE}",
        seen="the user's code raises during import or while it makes the model, or it does not return a model",
        advice="Read the traceback in error.json in the launch's folder. It starts in your code.",
        hardware=Hardware.NO,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
    ),
    Category.EXCEPTION: Rule(
        reaction=Reaction.SKIP_BROKEN,
        retries=0,
        why=_REPEATS,
        seen="any other Python exception",
        advice="Read the traceback in error.json in the launch's folder.",
        hardware=Hardware.MAY,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
        skips=Reach.WORK,
    ),
    Category.NOT_FINITE: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=0,
        why="with the same seed, every device computes the same numbers",
        seen="the loss, or an output of inference or generation, is NaN or infinite",
        advice="If the model is at fault, try another precision. If it fails on only one GPU, do not trust that GPU.",
        hardware=Hardware.MAY,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
        skips=Reach.WORK,
    ),
    Category.UNSUPPORTED: Rule(
        reaction=Reaction.NOT_SUPPORTED,
        retries=0,
        why="the other launches of the cell would lack the same",
        seen="torch.compile lacks a compiler or Triton, or an implementation supports no shape of an operator",
        advice="If the message names what to install, install it, and start a new run. `gpubench-orchestrate doctor` "
        "checks for it.",
        hardware=Hardware.NO,
        sign=Sign.EXCEPTION,
        traits=Trait.NO_ROOT_CAUSE,
    ),
    Category.CRASHED: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=1,
        why=_WHOSE,
        seen="SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGFPE, SIGTRAP or SIGSYS",
        advice=_READ,
        hardware=Hardware.POINTS,
        sign=Sign.OTHER,
        traits=Trait.CUDA_START,
    ),
    Category.KILLED: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=1,
        why="an outside process, the model or the device may be the cause",
        seen="another signal ended the process, and the kernel killed nothing for lack of memory",
        advice="Find the sender: an operator, a batch system, a limit of the container.",
        hardware=Hardware.MAY,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE,
        skips=Reach.CELL,
    ),
    Category.DEADLINE: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=0,
        why="a retry here would cost the same time; the model or the device may be the cause",
        seen="a phase took longer than its deadline; fault.log has the stack of every thread",
        advice=(
            "Read the stacks. If every device took too long, the model is slow: raise the deadline of the phase in the "
            "configuration file. If only one device took too long, check that device."
        ),
        hardware=Hardware.POINTS,
        sign=Sign.CONSEQUENCE,
        traits=Trait.NONE,
        skips=Reach.CELL,
        beside_others="ran out of time",
    ),
    Category.COMMUNICATION: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why=_SPORADIC,
        seen="a transfer between devices failed or timed out, and none of their processes died by itself",
        advice=("Read the evidence of each device. On GPUs, NCCL_DEBUG=INFO makes NCCL write more to stderr.log."),
        hardware=Hardware.MAY,
        sign=Sign.CONSEQUENCE,
        traits=Trait.HELD_BACK,
    ),
    Category.NO_OUTCOME: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why=_SPORADIC,
        seen="the process ended with an exit code, but without a result or an error",
        advice=_READ,
        hardware=Hardware.MAY,
        sign=Sign.OTHER,
        traits=Trait.NONE,
    ),
    Category.UNKILLABLE: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="the process still holds the device",
        seen="the process is alive 60 s after SIGKILL: it hangs in the kernel (state D), usually in the driver",
        advice="Look into the kernel log. Usually only a reboot helps.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.START_FAILED: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why=_SPORADIC,
        seen="the process ended before it took its work",
        advice=_READ,
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.NONE,
    ),
    Category.ZYGOTE_DIED: Rule(
        reaction=Reaction.RETRY,
        retries=3,
        why="the launch did not start",
        seen=(
            "during this fork, the zygote (the process that forks launches) died, or was killed because it did not "
            "answer"
        ),
        advice=(
            "Read zygote.log in the run's folder. If the process was killed, check the memory of the host. If it did "
            "not answer, find what stopped it (state T: SIGSTOP) or held it in the kernel (state D)."
        ),
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE,
    ),
    Category.PROTOCOL: Rule(
        reaction=Reaction.GIVE_UP,
        retries=0,
        why=_REPEATS,
        seen="orchestrator and worker exchanged an invalid message",
        advice="Make sure that only one version of gpubench is installed.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.NONE,
    ),
    Category.THROTTLED: Rule(
        reaction=Reaction.RETRY,
        retries=2,
        why="the device may cool down",
        seen="heat or a power brake slowed the GPU down for more than 1 % of the measured time",
        advice="Check cooling and power of the machine.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
    Category.CONTAMINATED: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why="the other process may end",
        seen="another process used the GPU during the measurement",
        advice="End that process, or exclude the GPU with --gpu-ids. In a burn-in, wrong bits still count.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE | Trait.REPEATED,
    ),
    Category.HALTED: Rule(
        reaction=Reaction.RETRY,
        retries=2,
        why="the times include the pause, which may not recur",
        seen="during warm-up or measurement, a signal stopped the process, or its container or machine was paused",
        advice="Find what pauses the container or stops processes (SIGSTOP), and prevent it during a run.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE | Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
    Category.STOPPED: Rule(
        reaction=Reaction.RETRY,
        retries=ANY_NUMBER,
        why="the stop was requested; `resume` continues",
        seen="a stop was requested, or the time limit of the run was reached",
        advice="`gpubench-orchestrate resume` continues the run.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.WITH_RUN | Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
    Category.RESULT_LOST: Rule(
        reaction=Reaction.RETRY,
        retries=5,
        why="the cell can be measured again",
        seen="result.msgpack is missing, or differs from the record in the journal",
        advice=(
            "`gpubench-orchestrate resume` measures the cell again. In a burn-in it needs time for this: the report "
            "says whether there is any."
        ),
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE | Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
    Category.INTERRUPTED: Rule(
        reaction=Reaction.RETRY,
        retries=5,
        why="the orchestrator was killed, probably not because of this cell",
        seen="the journal has the start of the launch but no end: the orchestrator was killed, or the machine rebooted",
        advice=(
            "`gpubench-orchestrate resume` continues the run. A cell that was interrupted too often is not tried "
            "again: find what ends the orchestrator (see the kernel log), then measure the cell in a new run."
        ),
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.WITH_RUN | Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
}

RUN: Final[dict[str, str]] = {
    "first SIGINT or SIGTERM": "no new cells start, running cells get up to 20 s; then report and exit code 4",
    "second SIGINT or SIGTERM": "running cells end now; then report and exit code 4",
    "SIGHUP": "ignored",
    "the orchestrator is killed": "the kernel ends its workers; finished results are kept, `resume` continues the run",
    "the zygote dies": "running workers continue; the zygote and the launches that it was forking are restarted",
    "CUDA does not work when a run starts or resumes": "nothing runs; exit code 2, with the CUDA error and advice",
    "NVML hangs when a run starts or resumes": "nothing runs; exit code 2, with advice",
    "NVML hangs later, or is missing": "the run continues; telemetry fields are null with a reason, health is UNKNOWN",
    "the disk is full": "the run stops with a message, also in the journal; exit code 5; finished results are kept",
    "no space for the first files of the run, or for temporary ones": "nothing runs; exit code 2",
    "no space for the report": "every format that fits is written; exit code 5; `resume` writes the others",
    "the clock of the host is set": "the journal records it; deadlines use the monotonic clock",
    "the orchestrator or its machine is paused": (
        "the journal records it; the pause counts against the time limit, but not against deadlines; affected cells "
        "are measured again"
    ),
    "the terminal is closed or stopped": "the run continues without it",
    "a launch prints without end": "its log keeps the beginning and the end, up to a cap; the launch is never blocked",
}
"""Event that concerns the whole run → reaction to it, in words."""

HARDWARE: Final = frozenset(category for category, rule in POLICY.items() if rule.hardware is Hardware.VERDICT)
POINTS_AT_DEVICE: Final = frozenset(category for category, rule in POLICY.items() if rule.hardware is Hardware.POINTS)


def has_trait(category: str | None, trait: Trait) -> bool:
    """Whether a category of failure (value of Category) has any of these traits. False for None."""
    return category is not None and bool(POLICY[Category(category)].traits & trait)


def retries(rule: Rule) -> str:
    """Format a rule's number of retries for a table: "2", "any number", or "" for none."""
    return "any number" if rule.retries == ANY_NUMBER else str(rule.retries or "")
