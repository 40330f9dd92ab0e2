"""The device of a launch: open it, check that it is the requested one, and set TF32 and threads of torch."""

import gc
import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import torch

from protocol.cell import Device, DeviceKind, Precision
from protocol.result import Environment
from worker.errors import DeviceInheritedError, DeviceUnavailableError
from worker.timing import Clock, CudaClock, HostClock

_DESCRIPTORS: Final = Path("/proc/self/fd")
_GPU_FILES: Final = "/dev/nvidia"

HALF: Final = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}


def open_device(device: Device, precision: Precision) -> torch.device:
    """Open the device, switch TF32 on or off for `precision`, and set one torch thread for each core of this process.

    A GPU gets a CUDA context. Raises DeviceInheritedError if this process has a GPU open already. Raises
    DeviceUnavailableError if CUDA cannot open the device, or opens other GPUs than the requested one.
    """
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    set_tf32(wanted=precision is Precision.TF32)
    return _open_cuda(device) if device.kind is DeviceKind.CUDA else torch.device("cpu")


def clock_for(device: torch.device) -> Clock:
    """Return a new clock that times work on this device."""
    return CudaClock() if device.type == "cuda" else HostClock()


def synchronize(device: torch.device) -> None:
    """Wait until the device is idle. Does nothing on a CPU device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _open_cuda(device: Device) -> torch.device:
    inherited = gpu_descriptors()
    initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch does not annotate it
    if inherited or initialized:
        raise DeviceInheritedError(
            f"{device.label}: this process already holds a GPU ({', '.join(inherited) or 'CUDA is initialised'}), "
            "so the launch would not start fresh. Nothing may use CUDA before a launch is forked"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch does not annotate it
        count = torch.cuda.device_count()
        torch.cuda.synchronize()
        found = str(torch.cuda.get_device_properties(0).uuid)
    except (RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError) as error:
        raise DeviceUnavailableError(
            f"{device.label} ({device.uuid}) cannot be opened with CUDA_VISIBLE_DEVICES {visible}: {error}"
        ) from error
    if count != 1:
        raise DeviceUnavailableError(f"{device.label}: {count} GPUs are visible, expected only {device.uuid}")
    if device.uuid.startswith("GPU-") and not _same_uuid(found, device.uuid):
        raise DeviceUnavailableError(f"{device.label}: CUDA opened GPU {found}, expected {device.uuid}")
    return torch.device("cuda", 0)


def gpu_descriptors() -> list[str]:
    """Return the paths of the GPU files that this process has open, such as "/dev/nvidia0" and "/dev/nvidiactl"."""
    found = set()
    for descriptor in _DESCRIPTORS.iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue  # the descriptor by which the folder itself was read
        if target.startswith(_GPU_FILES):
            found.add(target)
    return sorted(found)


def _same_uuid(first: str, second: str) -> bool:
    return first.lower().removeprefix("gpu-") == second.lower().removeprefix("gpu-")  # CUDA omits the prefix


def set_tf32(*, wanted: bool) -> None:
    """Switch TF32 for matrix products and cuDNN by torch's older interface: mixing it with the newer one raises."""
    backends: Any = torch.backends  # torch declares only part of the newer interface
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if _newer_interface():
            backends.fp32_precision = "none"
            backends.cudnn.fp32_precision = "none"
        torch.backends.cuda.matmul.allow_tf32 = wanted
        torch.backends.cudnn.allow_tf32 = wanted


def tf32_switches() -> dict[str, bool]:
    """Return torch's three TF32 switches: name, such as "cudnn.rnn.allow_tf32" → True if it is on. Never raises."""
    backends: Any = torch.backends
    cuda, cudnn = backends.cuda, backends.cudnn
    if _newer_interface():
        return {
            "cuda.matmul.allow_tf32": cuda.matmul.fp32_precision == "tf32",
            "cudnn.allow_tf32": cudnn.conv.fp32_precision == "tf32",
            "cudnn.rnn.allow_tf32": cudnn.rnn.fp32_precision == "tf32",
        }
    return {
        "cuda.matmul.allow_tf32": cuda.matmul.allow_tf32,
        "cudnn.allow_tf32": cudnn.allow_tf32,
        "cudnn.rnn.allow_tf32": cudnn.allow_tf32,
    }


def _newer_interface() -> bool:
    return hasattr(torch.backends.cuda.matmul, "fp32_precision")  # since torch 2.9


def weights_type(precision: Precision, *, training: bool) -> torch.dtype:
    """Return the type of a model's weights: fp16 or bf16 for inference in that precision, otherwise fp32."""
    return torch.float32 if training else HALF.get(precision, torch.float32)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return the context manager for a training step's forward pass: autocast in fp16 and bf16, else without effect."""
    half = HALF.get(precision)
    return nullcontext() if half is None else torch.autocast(device.type, dtype=half)


def onednn_has_bf16() -> bool:
    """Whether oneDNN can compute in bf16 on this CPU, which needs AVX-512."""
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported


@contextmanager
def training_kernels(device: torch.device, precision: Precision) -> Iterator[None]:
    """Disable oneDNN in the `with` body on a CPU device in fp16, or in bf16 without AVX-512. Else do nothing.

    oneDNN cannot train recurrent layers in these cases, and its fp16 convolutions are slower than torch's own.
    """
    supported = precision is not Precision.FP16 and (precision not in HALF or onednn_has_bf16())
    if device.type != "cpu" or supported:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that there are no GPUs of Intel
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def environment(device: torch.device, isolation: str) -> Environment:
    """Return versions of libraries and settings of this process. isolation: "fork" or "exec".

    A version is None if the library is not installed; that of cuDNN also on a CPU device.
    """
    cudnn = None
    if device.type == "cuda":
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]  # torch does not annotate it
    return Environment(
        python=platform.python_version(),
        torch=str(torch.__version__),  # msgspec takes plain strings alone
        cuda=torch.version.cuda,
        cudnn=None if cudnn is None else str(cudnn),
        torchvision=installed("torchvision"),
        transformers=installed("transformers"),
        jax=installed("jax"),
        threads=torch.get_num_threads(),
        collector_enabled=gc.isenabled(),
        flags=_flags(),
        isolation=isolation,
    )


def _flags() -> dict[str, str]:
    switches: dict[str, object] = {
        **tf32_switches(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "interop_threads": torch.get_num_interop_threads(),
        "gc.threshold": gc.get_threshold(),
        "gc.frozen": gc.get_freeze_count() > 0,
        **{name: os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")},
    }
    return {name: str(value) for name, value in switches.items()}


def installed(distribution: str) -> str | None:
    """Return the version of an installed distribution (pip package), None if not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
