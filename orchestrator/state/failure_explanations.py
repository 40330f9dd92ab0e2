"""What each kind of failure is, in words: how it is seen, and what a person can do about it. Data alone.

`explain` prints it, the report's root cause ends with it. What the run does by itself is in failure_policy.py.
"""

from typing import Final, NamedTuple

from protocol.failure import Category


class Explanation(NamedTuple):
    """seen: by what the kind is told from others. advice: what helps."""

    seen: str
    advice: str


_FREE: Final = "Look for other processes on the device (nvidia-smi), or ask for a smaller batch or input."
_READ: Final = "Read stderr.log and fault.log in the launch's folder."
_OPERATOR: Final = "Look for Xid messages in the kernel log (dmesg), and have the GPU checked before it is used again."

EXPLANATIONS: Final[dict[Category, Explanation]] = {
    Category.DEVICE_LOST: Explanation("NVML says that the GPU is lost or has to be reset", _OPERATOR),
    Category.DEVICE_HARDWARE: Explanation(
        "CUDA error 214 (uncorrectable ECC error), a grave Xid, uncorrected memory errors that NVML counts during the "
        "run, or a damaged InfoROM",
        _OPERATOR,
    ),
    Category.DEVICE_UNAVAILABLE: Explanation(
        "CUDA cannot be used on the device: error 35, 46, 100, 101, 802, 803 or 804",
        "Run `gpubench-orchestrate doctor`. After a hardware error of another GPU it may be a consequence of that one.",
    ),
    Category.DEVICE_NOT_FREED: Explanation(
        "30 s after its process ended, more of the GPU's memory is in use than when the run began",
        "Look for what holds it (nvidia-smi, fuser /dev/nvidia*). If nothing does, reset the GPU.",
    ),
    Category.TOO_HOT: Explanation(
        "in a burn-in, the GPU was for ten seconds at the limit where it slows itself down, or at --max-temperature",
        "Look at the cooling: fans, dust, heat sinks, the air or water that comes in. `gpubench-orchestrate resume` "
        "tries the GPU again.",
    ),
    Category.CUDA_STICKY: Explanation(
        "a CUDA error after which the process cannot go on: 700 (illegal address), 710 (assert), 714 to 719, 999, …",
        "If the model is at fault, run it with CUDA_LAUNCH_BLOCKING=1 to see which call it is.",
    ),
    Category.CUDA_ERROR: Explanation("another error of CUDA, cuBLAS, cuDNN or a library like them", _READ),
    Category.OUT_OF_MEMORY: Explanation(
        "torch.OutOfMemoryError; CUDA error 2; an allocation that cuBLAS or cuDNN was refused; on a CPU device, one "
        "that the host refused",
        _FREE,
    ),
    Category.HOST_OUT_OF_MEMORY: Explanation(
        "SIGKILL while the kernel's count of out-of-memory kills rose; or a process on a GPU was refused host memory",
        "Give the machine or the container more memory, or measure fewer devices at once (--solo).",
    ),
    Category.IMPORT_ERROR: Explanation(
        "ImportError or ModuleNotFoundError", "Install what is missing; `torch-gpu-benchmark info` shows what there is."
    ),
    Category.NOT_BUILT: Explanation(
        "code of the user's own raises while it is imported or makes its model, or what it makes is no model",
        "Read the traceback in error.json in the launch's folder: it begins in that code.",
    ),
    Category.EXCEPTION: Explanation(
        "a Python exception that no other kind explains", "Read the traceback in error.json in the launch's folder."
    ),
    Category.NOT_FINITE: Explanation(
        "the loss, or what the model puts out in inference or generation, is NaN or infinite",
        "If the model is at fault, try another precision. If only one GPU does it, do not trust that GPU.",
    ),
    Category.CRASHED: Explanation("SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGFPE, SIGTRAP or SIGSYS", _READ),
    Category.KILLED: Explanation(
        "another signal, and the kernel counted no out-of-memory kill",
        "Look for who sends it: an operator, a batch system, a limit of the container.",
    ),
    Category.DEADLINE: Explanation(
        "a phase took longer than its deadline; every thread's stack is in fault.log",
        "Read the stacks. Where every device took too long, the model is slow: raise the phase's deadline in the "
        "configuration file. Where only one did, have that one checked.",
    ),
    Category.COMMUNICATION: Explanation(
        "a transfer between devices failed, or was never answered, and none of their processes died by itself",
        "Read the evidence: each device says what it saw. On GPUs, NCCL_DEBUG=INFO has NCCL say more, in stderr.log.",
    ),
    Category.NO_OUTCOME: Explanation("the process ended with an exit code and without a word", _READ),
    Category.UNKILLABLE: Explanation(
        "still alive 60 s after SIGKILL: it hangs in the kernel (state D), mostly in the driver",
        "Look into the kernel log. Mostly nothing but a reboot helps.",
    ),
    Category.START_FAILED: Explanation("the process never came to the point where it takes its work", _READ),
    Category.ZYGOTE_DIED: Explanation(
        "the process that forks the launches ended, or did not answer and was ended, while this one was being forked",
        "Read zygote.log in the run's folder. Where it was killed, look for want of memory; where it did not answer, "
        "for who stopped it (state T: SIGSTOP), or what held it in the kernel (state D).",
    ),
    Category.PROTOCOL: Explanation(
        "parent and child did not understand each other", "Make sure that only one version of gpubench is installed."
    ),
    Category.THROTTLED: Explanation(
        "the GPU was slowed down for heat or by a brake for more than 1 % of the measured time",
        "Look at cooling and power of the machine.",
    ),
    Category.CONTAMINATED: Explanation(
        "another process was at work on the GPU while it was measured",
        "End it, or leave the GPU out with --gpu-ids. Wrong bits that a burn-in saw meanwhile count all the same.",
    ),
    Category.STOPPED: Explanation(
        "a person asked the run to stop, or its time limit was reached", "`gpubench-orchestrate resume` goes on."
    ),
    Category.RESULT_LOST: Explanation(
        "result.msgpack is missing, or not what the journal promised",
        "`gpubench-orchestrate resume` measures it again; of a burn-in only where time is left (its reasons say so).",
    ),
    Category.INTERRUPTED: Explanation(
        "the journal has its start and no end: the orchestrator was killed, or the machine restarted",
        "`gpubench-orchestrate resume` goes on. A cell that was interrupted too often is not tried again: find what "
        "ends the orchestrator (the kernel's log names what it killed), then measure the cell in a new run.",
    ),
}
