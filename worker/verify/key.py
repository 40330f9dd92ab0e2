"""Key of a launch: only launches with equal keys are expected to give the same bits."""

import ctypes
from pathlib import Path
from typing import Final

import torch

from protocol.cell import Device

_MAPS: Final = Path("/proc/self/maps")
_CPUINFO: Final = Path("/proc/cpuinfo")
_UNKNOWN: Final = "unknown"


def key(device: Device, opened: torch.device) -> tuple[str, ...]:
    """Return all that the bits of an output depend on, such as ("NVIDIA H200", "132 multiprocessors", "sm_90", …).

    opened: the device as torch opened it. Call it after the first product, which loads cuBLAS. Elements for a GPU:
    name, multiprocessors, architecture, driver, torch, CUDA, cuBLAS, cuDNN, and whole GPU or MIG slice. For a CPU:
    model, instruction set, threads (which set the order of additions) and torch. What cannot be found is "unknown".
    """
    return _gpu(device, opened) if opened.type == "cuda" else _cpu()


def _gpu(device: Device, opened: torch.device) -> tuple[str, ...]:
    properties = torch.cuda.get_device_properties(opened)
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]  # torch does not annotate it
    return (
        str(properties.name),
        f"{properties.multi_processor_count} multiprocessors",
        f"sm_{properties.major}{properties.minor}",
        f"driver {device.driver_version or _UNKNOWN}",
        f"torch {torch.__version__}",
        f"CUDA {torch.version.cuda}",
        f"cuBLAS {_cublas()}",
        f"cuDNN {cudnn}",
        "whole" if device.slice_of is None else "MIG slice",
    )


def _cpu() -> tuple[str, ...]:
    return (
        _processor(),
        torch.backends.cpu.get_cpu_capability(),
        f"{torch.get_num_threads()} threads",
        f"torch {torch.__version__}",
    )


def _cublas() -> str:
    for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        path = line.partition("/")[2]
        if "libcublasLt.so" in path:
            try:
                version = ctypes.CDLL(f"/{path}").cublasLtGetVersion
            except (OSError, AttributeError):
                return _UNKNOWN
            version.restype = ctypes.c_size_t
            return str(version())
    return _UNKNOWN


def _processor() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return _UNKNOWN
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), _UNKNOWN)
