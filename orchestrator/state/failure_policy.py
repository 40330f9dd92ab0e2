"""What to do about each kind of failure, and about events of the run. docs/failures.md is generated from it.

A new category is a member of protocol.failure.Category, a Rule here, and the code that recognises it.
"""

import enum
from typing import Final

import msgspec

from protocol.failure import Category, Phase


class Reaction(enum.StrEnum):
    """What happens next, in the words of reports."""

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
    """How much of a faulty model is skipped: the index of its name in slots.scopes."""

    MODEL = 0
    WORK = 1
    CELL = 2


class Hardware(enum.Enum):
    """What a failure says about the hardware of its device.

    VERDICT: it is faulty. POINTS: a faulty GPU may fail so; without another GPU, two such models in a row quarantine
    it. MAY, POINTS: a GPU fault that the driver reports meanwhile is the cause. NO: hardware is not the cause. Signals
    and losses that are not finite come from healthy GPUs too.
    """

    VERDICT = enum.auto()
    POINTS = enum.auto()
    MAY = enum.auto()
    NO = enum.auto()


class Sign(enum.IntEnum):
    """How surely a failure shows the cause among those of a gang's processes, surest first.

    OTHER: signals and the rest. CONSEQUENCE: another process of the gang may have caused it.
    """

    LOST = enum.auto()
    DEVICE = enum.auto()
    CUDA = enum.auto()
    EXCEPTION = enum.auto()
    OTHER = enum.auto()
    CONSEQUENCE = enum.auto()


class Trait(enum.Flag):
    """More properties of a category.

    HELD_BACK: wait 1 s for the driver to name the cause. CUDA_START: CUDA's start-up fails so on a healthy GPU after
    another GPU's hardware has failed. FROM_OUTSIDE: healthy devices meet it too. WITH_RUN: the launch ended because the
    run did. REPEATED: measured again, so as a last attempt it means that the run ended. ROOT_CAUSE: explains other
    failures of the run. NO_ROOT_CAUSE: never explains another one.
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
    """Everything known of a category.

    retries: fresh processes on the same device before the failure is final, or ELSEWHERE. why: reason for the reaction.
    seen: how it is recognised. beside_others: what the launch did, where another process on its GPU may be the cause.
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
"""Failures that follow a device before it is quarantined. A hardware verdict needs no second."""
BEFORE_DEVICE: Final = frozenset({Phase.START, Phase.IMPORT})
"""Phases that do not touch the device."""
BEFORE_FIRST_FORWARD: Final = frozenset({Phase.START, Phase.IMPORT, Phase.BUILD})
"""Phases whose failures do not depend on the batch."""
_SPORADIC: Final = "may not happen again in a fresh process"
_REPEATS: Final = "would happen again"
_ALIKE: Final = "every other cell of it would fail alike"
_WHOSE: Final = "its cause may be the model or the device"
_FREE: Final = "Look for other processes on the device (nvidia-smi), or ask for a smaller batch or input."
_READ: Final = "Read stderr.log and fault.log in the launch's folder."
_OPERATOR: Final = "Look for Xid messages in the kernel log (dmesg), and have the GPU checked before it is used again."

POLICY: Final[dict[Category, Rule]] = {
    Category.DEVICE_LOST: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="nothing more can run there",
        seen="NVML says that the GPU is lost or has to be reset",
        advice=_OPERATOR,
        hardware=Hardware.VERDICT,
        sign=Sign.LOST,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.DEVICE_HARDWARE: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="its results could not be trusted",
        seen=(
            "CUDA error 214 (uncorrectable ECC error), a grave Xid, uncorrected memory errors that NVML counts "
            "during the run, or a damaged InfoROM"
        ),
        advice=_OPERATOR,
        hardware=Hardware.VERDICT,
        sign=Sign.DEVICE,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.DEVICE_UNAVAILABLE: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why=_SPORADIC,
        seen="CUDA cannot be used on the device: error 35, 46, 100, 101, 802, 803 or 804",
        advice=(
            "Run `gpubench-orchestrate doctor`. After a hardware error of another GPU it may be a consequence of "
            "that one."
        ),
        hardware=Hardware.MAY,
        sign=Sign.CUDA,
        traits=Trait.HELD_BACK,
    ),
    Category.DEVICE_NOT_FREED: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="memory is held by nobody; later cells would be measured wrongly",
        seen="30 s after its process ended, more of the GPU's memory is in use than when the run began",
        advice="Look for what holds it (nvidia-smi, fuser /dev/nvidia*). If nothing does, reset the GPU.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.TOO_HOT: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="more load would make it hotter still",
        seen=(
            "in a burn-in, the GPU was for ten seconds at the limit where it slows itself down, or at --max-temperature"
        ),
        advice=(
            "Look at the cooling: fans, dust, heat sinks, the air or water that comes in. `gpubench-orchestrate "
            "resume` tries the GPU again."
        ),
        hardware=Hardware.NO,
        sign=Sign.DEVICE,
        traits=Trait.NONE,
    ),
    Category.CUDA_STICKY: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=0,
        why=_WHOSE,
        seen=(
            "a CUDA error after which the process cannot go on: 700 (illegal address), 710 (assert), 714 to 719, 999, …"
        ),
        advice="If the model is at fault, run it with CUDA_LAUNCH_BLOCKING=1 to see which call it is.",
        hardware=Hardware.POINTS,
        sign=Sign.CUDA,
        traits=Trait.HELD_BACK | Trait.CUDA_START,
    ),
    Category.CUDA_ERROR: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=1,
        why=_WHOSE,
        seen="another error of CUDA, cuBLAS, cuDNN or a library like them",
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
            "torch.OutOfMemoryError; CUDA error 2; an allocation that cuBLAS or cuDNN was refused; on a CPU device, "
            "one that the host refused"
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
        why="cells that run at once share the host's memory",
        seen=(
            "SIGKILL while the kernel's count of out-of-memory kills rose; or a process on a GPU was refused host "
            "memory"
        ),
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
        advice="Install what is missing; `torch-gpu-benchmark info` shows what there is.",
        hardware=Hardware.NO,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
    ),
    Category.NOT_BUILT: Rule(
        reaction=Reaction.SKIP_MODEL,
        retries=0,
        why=_ALIKE,
        seen="code of the user's own raises while it is imported or makes its model, or what it makes is no model",
        advice="Read the traceback in error.json in the launch's folder: it begins in that code.",
        hardware=Hardware.NO,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
    ),
    Category.EXCEPTION: Rule(
        reaction=Reaction.SKIP_BROKEN,
        retries=0,
        why=_REPEATS,
        seen="a Python exception that no other kind explains",
        advice="Read the traceback in error.json in the launch's folder.",
        hardware=Hardware.MAY,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
        skips=Reach.WORK,
    ),
    Category.NOT_FINITE: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=0,
        why="with the same seed it is the same numbers everywhere",
        seen="the loss, or what the model puts out in inference or generation, is NaN or infinite",
        advice="If the model is at fault, try another precision. If only one GPU does it, do not trust that GPU.",
        hardware=Hardware.MAY,
        sign=Sign.EXCEPTION,
        traits=Trait.NONE,
        skips=Reach.WORK,
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
        why="its cause may be outside, the model or the device",
        seen="another signal, and the kernel counted no out-of-memory kill",
        advice="Look for who sends it: an operator, a batch system, a limit of the container.",
        hardware=Hardware.MAY,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE,
        skips=Reach.CELL,
    ),
    Category.DEADLINE: Rule(
        reaction=Reaction.ELSEWHERE,
        retries=0,
        why="here it would cost as much time again; its cause may be the model or the device",
        seen="a phase took longer than its deadline; every thread's stack is in fault.log",
        advice=(
            "Read the stacks. Where every device took too long, the model is slow: raise the phase's deadline in the "
            "configuration file. Where only one did, have that one checked."
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
        seen="a transfer between devices failed, or was never answered, and none of their processes died by itself",
        advice=(
            "Read the evidence: each device says what it saw. On GPUs, NCCL_DEBUG=INFO has NCCL say more, in "
            "stderr.log."
        ),
        hardware=Hardware.MAY,
        sign=Sign.CONSEQUENCE,
        traits=Trait.HELD_BACK,
    ),
    Category.NO_OUTCOME: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why=_SPORADIC,
        seen="the process ended with an exit code and without a word",
        advice=_READ,
        hardware=Hardware.MAY,
        sign=Sign.OTHER,
        traits=Trait.NONE,
    ),
    Category.UNKILLABLE: Rule(
        reaction=Reaction.QUARANTINE,
        retries=0,
        why="the process still holds the device",
        seen="still alive 60 s after SIGKILL: it hangs in the kernel (state D), mostly in the driver",
        advice="Look into the kernel log. Mostly nothing but a reboot helps.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.ROOT_CAUSE,
    ),
    Category.START_FAILED: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why=_SPORADIC,
        seen="the process never came to the point where it takes its work",
        advice=_READ,
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.NONE,
    ),
    Category.ZYGOTE_DIED: Rule(
        reaction=Reaction.RETRY,
        retries=3,
        why="the launch never began",
        seen=(
            "the process that forks the launches ended, or did not answer and was ended, while this one was being "
            "forked"
        ),
        advice=(
            "Read zygote.log in the run's folder. Where it was killed, look for want of memory; where it did not "
            "answer, for who stopped it (state T: SIGSTOP), or what held it in the kernel (state D)."
        ),
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE,
    ),
    Category.PROTOCOL: Rule(
        reaction=Reaction.GIVE_UP,
        retries=0,
        why=_REPEATS,
        seen="parent and child did not understand each other",
        advice="Make sure that only one version of gpubench is installed.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.NONE,
    ),
    Category.THROTTLED: Rule(
        reaction=Reaction.RETRY,
        retries=2,
        why="the device may have cooled down",
        seen="the GPU was slowed down for heat or by a brake for more than 1 % of the measured time",
        advice="Look at cooling and power of the machine.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
    Category.CONTAMINATED: Rule(
        reaction=Reaction.RETRY,
        retries=1,
        why="the other process may have left by then",
        seen="another process was at work on the GPU while it was measured",
        advice=(
            "End it, or leave the GPU out with --gpu-ids. Wrong bits that a burn-in saw meanwhile count all the same."
        ),
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE | Trait.REPEATED,
    ),
    Category.STOPPED: Rule(
        reaction=Reaction.RETRY,
        retries=ANY_NUMBER,
        why="a person asked for it; `resume` goes on",
        seen="a person asked the run to stop, or its time limit was reached",
        advice="`gpubench-orchestrate resume` goes on.",
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.WITH_RUN | Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
    Category.RESULT_LOST: Rule(
        reaction=Reaction.RETRY,
        retries=5,
        why="its file can be measured anew",
        seen="result.msgpack is missing, or not what the journal promised",
        advice=(
            "`gpubench-orchestrate resume` measures it again; of a burn-in only where time is left (its reasons say "
            "so)."
        ),
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.FROM_OUTSIDE | Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
    Category.INTERRUPTED: Rule(
        reaction=Reaction.RETRY,
        retries=5,
        why="the orchestrator was killed, probably not by this cell",
        seen="the journal has its start and no end: the orchestrator was killed, or the machine restarted",
        advice=(
            "`gpubench-orchestrate resume` goes on. A cell that was interrupted too often is not tried again: find "
            "what ends the orchestrator (the kernel's log names what it killed), then measure the cell in a new run."
        ),
        hardware=Hardware.NO,
        sign=Sign.OTHER,
        traits=Trait.WITH_RUN | Trait.REPEATED | Trait.NO_ROOT_CAUSE,
    ),
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
"""Event of the whole run → what is done."""

HARDWARE: Final = frozenset(category for category, rule in POLICY.items() if rule.hardware is Hardware.VERDICT)
POINTS_AT_DEVICE: Final = frozenset(category for category, rule in POLICY.items() if rule.hardware is Hardware.POINTS)


def has_trait(category: str | None, trait: Trait) -> bool:
    """Whether a category, given by its value, has one of these traits. None has none."""
    return category is not None and bool(POLICY[Category(category)].traits & trait)


def retries(rule: Rule) -> str:
    """The number of retries on the same device in words; empty for none."""
    return "any number" if rule.retries == ANY_NUMBER else str(rule.retries or "")
