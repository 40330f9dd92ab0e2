"""Whether CUDA works on the GPUs of a run, asked before anything is begun: NVML can be well where CUDA is not.

    require ── CUDA_VISIBLE_DEVICES=<UUIDs of the run> ──▶ python -P -m orchestrator.cuda_probe <our PID>
            ◀── a Finding, one line of JSON ───────────── cuInit, cuDeviceGetCount; no context; ends

In a short process of its own, because cuInit can hang or crash, and because the orchestrator never touches CUDA. What
was heard becomes words in `trouble`, which is pure. Without this every cell would fail by itself, after a long start.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from orchestrator import ending, spawn
from orchestrator.errors import DeviceError
from protocol.cell import Device, DeviceKind

TIMEOUT_S: Final = 60.0
"""Far above what it needs: without persistence mode cuInit wakes every GPU of the node, some seconds for eight."""

_PATIENCE_S: Final = 2.0
"""For each step of ending a hang: SIGTERM, SIGKILL."""
_PIPE_BYTES: Final = 64 * 1024
"""As many as a pipe holds; the answer is below 1 KiB."""
_PR_SET_PDEATHSIG: Final = 1
_LIBRARY: Final = "libcuda.so.1"
_LOAD: Final = "dlopen"

_MPS: Final = (
    "CUDA goes through MPS here: start its daemon (nvidia-cuda-mps-control -d), or end it and unset "
    "CUDA_MPS_PIPE_DIRECTORY"
)
# Return codes of cuda.h; 35 is one of the runtime's, for which the driver has no words.
_NO_DEVICE: Final = 100
_WHAT_TO_DO: Final = {
    34: "this is the stub for linking: take the folder 'stubs' of the CUDA toolkit off LD_LIBRARY_PATH",
    35: "the driver is too old for this CUDA: update the driver, or install the versions in constraints-cu12.txt",
    46: "a GPU is busy, or in exclusive or prohibited mode: `nvidia-smi -q -d COMPUTE` shows the mode, "
    "`nvidia-smi -c DEFAULT` (as root) allows CUDA again",
    _NO_DEVICE: "in a container give it the GPUs (docker run --gpus all); a slice may have been destroyed since "
    "(nvidia-smi -L lists them)",
    101: "a GPU cannot be opened: `nvidia-smi` and the kernel log (Xid) may say which; leave it out with --gpu-ids",
    802: "the fabric manager that connects the GPUs is not running or not ready: start it (systemctl start "
    "nvidia-fabricmanager, of the driver's own version) and wait until `nvidia-smi -q` shows Fabric State: Completed",
    803: "the driver was upgraded while in use, its library and its kernel module differ: reboot",
    804: "the forward-compatibility libraries (cuda-compat) do not suit this GPU: take them off LD_LIBRARY_PATH, or "
    "update the driver",
    **dict.fromkeys(range(805, 810), _MPS),
    999: "often the kernel module nvidia-uvm is missing, or broken after a suspend: load it (modprobe nvidia-uvm), in "
    "a container pass /dev/nvidia-uvm; the kernel log may say more, a reboot often helps",
}
_OTHERWISE: Final = "`nvidia-smi` and the kernel log may say more"


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the process found.

    count: GPUs that CUDA shows it; None where a step failed. step: the call that failed, with its code, CUDA's name for
    that and CUDA's words; `dlopen` has no code, its words are the loader's.
    """

    count: int | None = None
    step: str = ""
    code: int = 0
    name: str = ""
    words: str = ""


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """It gave no answer. seconds: it hung for so long, None where it ended: how, and the last line that it printed."""

    seconds: float | None = None
    end: str = ""
    said: str = ""


def require(devices: Sequence[Device]) -> None:
    """Make sure that CUDA works and shows the GPUs among `devices`. Does nothing where there are none.

    Took half a second on a node with one H200, and takes it for each slice; TIMEOUT_S at most for each process. Raises
    DeviceError, saying what to do.
    """
    for gpus in together(devices):
        spawn.check_rooms()
        wrong = trouble(look([gpu.uuid for gpu in gpus]), gpus)
        if wrong is not None:
            raise DeviceError(f"CUDA cannot be used on the GPUs of this run: {wrong}. Nothing was started.")


def together(devices: Sequence[Device]) -> Iterator[tuple[Device, ...]]:
    """The GPUs that one process can see at once: all whole ones, and each MIG slice alone."""
    gpus = [device for device in devices if device.kind is DeviceKind.CUDA]
    whole = tuple(gpu for gpu in gpus if gpu.slice_of is None)
    if whole:
        yield whole
    yield from ((gpu,) for gpu in gpus if gpu.slice_of is not None)


def trouble(heard: Finding | Silence, gpus: Sequence[Device]) -> str | None:
    """What is wrong with CUDA, and what to do; None where it shows all of `gpus`, which were made visible in order."""
    match heard:
        case Silence(seconds=float(seconds)):
            return (
                f"cuInit hangs, it did not return within {seconds:g} s; the kernel log may say why, a reboot may help"
            )
        case Silence(end=end, said=said):
            return f"the process that tries it ended: {end}{f' (it printed: {said})' if said else ''}; {_OTHERWISE}"
        case Finding(step=step, words=words) if step == _LOAD:
            return (
                f"{_LIBRARY} cannot be loaded ({words}), while NVML, and with it nvidia-smi, does not need it; install "
                "the driver's CUDA library (libcuda1, or the whole driver), in a container start it with "
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            )
        case Finding(count=None, step=step, code=code, name=name, words=words):
            said = ", ".join(filter(None, [name, words]))
            first = f", so CUDA has no {gpus[0].label} ({gpus[0].uuid})" if code == _NO_DEVICE else ""
            return f"{step} says {code}{f' ({said})' if said else ''}{first}; {_WHAT_TO_DO.get(code, _OTHERWISE)}"
        case Finding(count=int(count)) if count < len(gpus):
            # CUDA ends the list of visible devices at the first that it does not have.
            missing = gpus[count]
            return (
                f"it shows {count} of {len(gpus)}, and {missing.label} ({missing.uuid}) is the first that it does not "
                f"have; {_WHAT_TO_DO[101]}"
            )
        case Finding(count=count) if count != len(gpus):
            return f"it shows {count} where {len(gpus)} were made visible; {_OTHERWISE}"
    return None


def look(uuids: Sequence[str], timeout_s: float = TIMEOUT_S) -> Finding | Silence:
    """What CUDA says in a fresh process that may see these GPUs alone. The process is ended when this returns.

    One that hangs inside the driver and survives even SIGKILL is left to the kernel after another 4 s.
    """
    pid, answer = spawn.start_answering(
        "orchestrator.cuda_probe", str(os.getpid()), environment={"CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    )
    pidfd = os.pidfd_open(pid)
    ended = False
    try:
        ended = _readable(pidfd, timeout_s)
        output = _read_now(answer)
    finally:
        exit_ = ending.reap(pid) if ended else _end(pid, pidfd)
        os.close(answer)
        os.close(pidfd)
    return _understood(output, exit_) if ended else Silence(seconds=timeout_s)


def _read_now(answer: int) -> bytes:
    """What is in the pipe, without waiting: something that the process started may hold its other end."""
    os.set_blocking(answer, False)
    try:
        return os.read(answer, _PIPE_BYTES)
    except BlockingIOError:
        return b""


def _end(pid: int, pidfd: int) -> ending.Exit | None:
    """End a process that hangs: SIGTERM first, because a process killed inside the driver once froze an A100."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal.pidfd_send_signal(pidfd, number)
        if _readable(pidfd, _PATIENCE_S):
            return ending.reap(pid)
    return None


def _readable(fd: int, patience_s: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(patience_s * 1000))


def _understood(output: bytes, exit_: ending.Exit | None) -> Finding | Silence:
    """The answer among what was printed. One of a process that then crashed does not count."""
    lines = [line.strip() for line in output.decode("utf-8", errors="replace").splitlines() if line.strip()]
    if exit_ is None or exit_.code == 0:
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):
                return msgspec.json.decode(line, type=Finding)
    return Silence(end="nobody knows how" if exit_ is None else exit_.words, said=lines[-1] if lines else "")


# ── the process itself ────────────────────────────────────────────────────────────────────────────────────────────────


def main(parent_pid: int) -> int:
    """Be the process that touches CUDA: say what it found, in one line on standard output."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() == parent_pid:  # else nobody listens any more
        os.write(sys.stdout.fileno(), msgspec.json.encode(_found()) + b"\n")
    return 0


def _found() -> Finding:
    try:
        cuda = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        return Finding(step=_LOAD, words=str(error))
    code = cuda.cuInit(0)
    if code:
        return _failed(cuda, "cuInit", code)
    count = ctypes.c_int()
    code = cuda.cuDeviceGetCount(ctypes.byref(count))
    return _failed(cuda, "cuDeviceGetCount", code) if code else Finding(count=count.value)


def _failed(cuda: ctypes.CDLL, step: str, code: int) -> Finding:
    return Finding(
        step=step, code=code, name=_text(cuda.cuGetErrorName, code), words=_text(cuda.cuGetErrorString, code)
    )


def _text(function: Any, code: int) -> str:  # noqa: ANN401 - a function of a C library has no type
    """What CUDA calls a code; empty for one that it does not know."""
    text = ctypes.c_char_p()
    function(code, ctypes.byref(text))
    return (text.value or b"").decode("utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
