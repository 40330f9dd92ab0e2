"""Check CUDA on the GPUs of a run before anything starts, since NVML can work where CUDA fails or hangs.

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
"""Seconds to wait for the answer. Without persistence mode cuInit wakes all GPUs: some seconds for eight."""

_LIBRARY: Final = "libcuda.so.1"
_LOAD: Final = "dlopen"

_MPS: Final = (
    "CUDA uses MPS here. Start its daemon (nvidia-cuda-mps-control -d), or stop it and unset CUDA_MPS_PIPE_DIRECTORY"
)
# Return codes of cuda.h; 35 is one of the runtime's, which the driver does not describe.
_NO_DEVICE: Final = 100
_WHAT_TO_DO: Final = {
    34: "This is the stub library for linking. Remove the folder 'stubs' of the CUDA toolkit from LD_LIBRARY_PATH",
    35: "The driver is too old for this CUDA. Update the driver, or install the versions in constraints-cu12.txt",
    46: "A GPU is busy, or in exclusive or prohibited mode. `nvidia-smi -q -d COMPUTE` shows the mode, "
    "`nvidia-smi -c DEFAULT` (as root) allows CUDA again",
    _NO_DEVICE: "In a container, pass the GPUs (docker run --gpus all). A slice may no longer exist "
    "(nvidia-smi -L lists them)",
    101: "A GPU cannot be opened. `nvidia-smi` and the kernel log (Xid) may show which. Exclude it with --gpu-ids",
    802: "The fabric manager, which connects the GPUs, is not ready. Start it (systemctl start nvidia-fabricmanager, "
    "same version as the driver) and wait until `nvidia-smi -q` shows Fabric State: Completed",
    803: "The driver was updated while in use, so its library and its kernel module differ. Reboot",
    804: "The forward-compatibility libraries (cuda-compat) do not support this GPU. Remove them from "
    "LD_LIBRARY_PATH, or update the driver",
    **dict.fromkeys(range(805, 810), _MPS),
    999: "Often the kernel module nvidia-uvm is missing, or broken after a suspend. Load it (modprobe nvidia-uvm), or "
    "pass /dev/nvidia-uvm to the container. The kernel log may say more. A reboot often helps",
}
_OTHERWISE: Final = "Look into `nvidia-smi` and the kernel log"


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer of the probe: the number of visible GPUs, or the failed step and CUDA's description of its error.

    count: None if a step failed. step: name of the failed function, or "". It is "dlopen", with only `words` set, if
    CUDA's library cannot be loaded. code, name, words: CUDA's error code, its name and its description.
    """

    count: int | None = None
    step: str = ""
    code: int = 0
    name: str = ""
    words: str = ""


def require(devices: Sequence[Device]) -> None:
    """Raise DeviceError unless CUDA works and shows all GPUs among `devices`.

    Raises ConfigError if new processes would import packages from another folder than this process.
    """
    wrong = refusal(devices)
    if wrong is not None:
        raise DeviceError(f"{wrong}. Nothing was started.")


def refusal(devices: Sequence[Device]) -> str | None:
    """Return why CUDA cannot be used on `devices` and what to do, as text. None if it works or there is no GPU.

    One probe checks all whole GPUs together. Each MIG slice gets a probe of its own. A probe takes at most TIMEOUT_S
    seconds. Raises ConfigError if new processes would import packages from another folder than this process.
    """
    for gpus in visible_together(devices):
        process_start.check_rooms()
        wrong = trouble(look([gpu.uuid for gpu in gpus]), gpus)
        if wrong is not None:
            return f"CUDA cannot be used on the GPUs of this run: {wrong}"
    return None


def visible_together(devices: Sequence[Device]) -> Iterator[tuple[Device, ...]]:
    """Yield groups of GPUs that one process can see at once: all whole GPUs, then each MIG slice by itself."""
    gpus = [device for device in devices if device.kind is DeviceKind.CUDA]
    whole = tuple(gpu for gpu in gpus if gpu.slice_of is None)
    if whole:
        yield whole
    yield from ((gpu,) for gpu in gpus if gpu.slice_of is not None)


def trouble(answer: Finding | Silence, gpus: Sequence[Device]) -> str | None:
    """Return what is wrong with CUDA and what to do, as text. None if the probe's answer shows all `gpus`. Pure."""
    match answer:
        case Silence(seconds=float(seconds)):
            return f"cuInit hangs: it did not return within {seconds:g} s. Look into the kernel log. A reboot may help"
        case Silence(end=end, last_line=last_line):
            output = f" (output: {last_line})" if last_line else ""
            return f"the process that checks CUDA ended: {end}{output}. {_OTHERWISE}"
        case Finding(step=step, words=words) if step == _LOAD:
            return (
                f"{_LIBRARY} cannot be loaded ({words}); nvidia-smi works without it. Install the driver's CUDA "
                "library (libcuda1, or the whole driver). Start a container with "
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            )
        case Finding(count=None, step=step, code=code, name=name, words=words):
            described = f" ({', '.join(filter(None, [name, words]))})" if name or words else ""
            first = f", so CUDA has no {gpus[0].label} ({gpus[0].uuid})" if code == _NO_DEVICE else ""
            return f"{step} returns {code}{described}{first}. {_WHAT_TO_DO.get(code, _OTHERWISE)}"
        case Finding(count=int(count)) if count < len(gpus):
            # CUDA ignores visible devices after the first one that it does not have.
            missing = gpus[count]
            return (
                f"CUDA shows {count} of {len(gpus)} GPUs, the first missing one is {missing.label} ({missing.uuid}). "
                f"{_WHAT_TO_DO[101]}"
            )
        case Finding(count=count) if count != len(gpus):
            return f"CUDA shows {count} GPUs, but {len(gpus)} were made visible. {_OTHERWISE}"
    return None


def look(uuids: Sequence[str], timeout_s: float = TIMEOUT_S) -> Finding | Silence:
    """Probe CUDA: initialise it and count GPUs in a new process that sees only these GPUs. It makes no context.

    Returns Silence if the process gives no answer within `timeout_s` seconds, or ends without an answer.
    """
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
    text = ctypes.c_char_p()
    function(code, ctypes.byref(text))
    return (text.value or b"").decode("utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(subprocess_query.answer(_found))
