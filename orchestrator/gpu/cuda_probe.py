"""Checks CUDA on the GPUs of a run before anything starts, since NVML can work where CUDA fails or hangs.

require ── CUDA_VISIBLE_DEVICES=<UUIDs of the run> ──▶ python -P -m orchestrator.gpu.cuda_probe <our PID>
        ◀── a Finding, one line of JSON ───────────── cuInit, cuDeviceGetCount; no context; ends
"""

import ctypes
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from orchestrator.errors import DeviceError
from orchestrator.system import process_start, subprocess_query
from orchestrator.system.subprocess_query import Silence
from protocol.cell import Device, DeviceKind

TIMEOUT_S: Final = 60.0
"""Far above what it needs: without persistence mode cuInit wakes every GPU of the node, some seconds for eight."""

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
    """Number of visible GPUs, or the failed step with CUDA's code, name and words; `dlopen` has the loader's words."""

    count: int | None = None
    step: str = ""
    code: int = 0
    name: str = ""
    words: str = ""


def require(devices: Sequence[Device]) -> None:
    """Make sure that CUDA works and shows the GPUs among `devices`. Raises DeviceError, saying what to do."""
    wrong = refusal(devices)
    if wrong is not None:
        raise DeviceError(f"{wrong}. Nothing was started.")


def refusal(devices: Sequence[Device]) -> str | None:
    """Why no run can start on `devices`, and what to do; None where CUDA works or there is no GPU.

    Takes 0.5 s (one H200) for the node and for each slice, at most TIMEOUT_S each.
    """
    for gpus in together(devices):
        process_start.check_rooms()
        wrong = trouble(look([gpu.uuid for gpu in gpus]), gpus)
        if wrong is not None:
            return f"CUDA cannot be used on the GPUs of this run: {wrong}"
    return None


def together(devices: Sequence[Device]) -> Iterator[tuple[Device, ...]]:
    """The GPUs that one process can see at once: all whole ones, and each MIG slice alone."""
    gpus = [device for device in devices if device.kind is DeviceKind.CUDA]
    whole = tuple(gpu for gpu in gpus if gpu.slice_of is None)
    if whole:
        yield whole
    yield from ((gpu,) for gpu in gpus if gpu.slice_of is not None)


def trouble(heard: Finding | Silence, gpus: Sequence[Device]) -> str | None:
    """What is wrong with CUDA, and what to do; None where it shows all of `gpus`, visible in this order. Pure."""
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
    """Probe CUDA in a fresh process in which only these GPUs are visible."""
    environment = {"CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    return subprocess_query.ask("orchestrator.gpu.cuda_probe", Finding, timeout_s, environment=environment)


# ── the process itself ────────────────────────────────────────────────────────────────────────────────────────────────


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
    """CUDA's text for a code; empty for an unknown one."""
    text = ctypes.c_char_p()
    function(code, ctypes.byref(text))
    return (text.value or b"").decode("utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(subprocess_query.answer(_found))
