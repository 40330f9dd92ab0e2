"""Errors of NVML by its return codes: no driver, a broken driver, or one lost GPU."""

from typing import Any, Final

# Return codes of nvml.h, named here because this module must be importable without loading pynvml.
_UNINITIALIZED: Final = 1
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
_DRIVER_NOT_LOADED: Final = 9
TIMEOUT: Final = 10
_LIBRARY_NOT_FOUND: Final = 12
CORRUPTED_INFOROM: Final = 14
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
_VERSION_MISMATCH: Final = 18

LOST: Final = frozenset({GPU_IS_LOST, RESET_REQUIRED})
"""NVML's codes for a GPU that no longer answers. A GPU with a damaged InfoROM still answers."""
FATAL: Final = frozenset({_UNINITIALIZED, _DRIVER_NOT_LOADED, _VERSION_MISMATCH})

_WHAT_TO_DO: Final = {
    NO_PERMISSION: "Allow this user to open /dev/nvidia*",
    _DRIVER_NOT_LOADED: "Load the driver (modprobe nvidia), or reinstall it",
    _LIBRARY_NOT_FOUND: "Install the driver's libnvidia-ml.so.1, or start the container with the NVIDIA runtime",
    CORRUPTED_INFOROM: "The InfoROM is damaged. Take the board out of service",
    GPU_IS_LOST: "A GPU has fallen off the bus. Look into the kernel log. A reboot may bring the GPU back",
    RESET_REQUIRED: "Reset the GPU (nvidia-smi --gpu-reset) or reboot",
    _VERSION_MISMATCH: "Driver/library version mismatch: the driver was updated while in use. Reboot",
}


class NvmlError(Exception):
    """A call of NVML failed. code: NVML's return code, 0 if there is none."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class NvmlAbsentError(NvmlError):
    """No NVIDIA driver is installed or loaded on this machine."""


class NvmlBrokenError(NvmlError):
    """There is a driver that does not work. The message says what to do."""


class GpuLostError(NvmlError):
    """One GPU no longer answers; the others may."""


def unusable(error: Any, *, driver_is_there: bool) -> NvmlError:  # noqa: ANN401 - pynvml has no types
    """Convert an error of pynvml on opening NVML: to NvmlAbsentError if there is no driver, else NvmlBrokenError.

    driver_is_there: whether the driver's device file exists. It decides only if NVML's library was not found.
    """
    code = int(error.value)
    if code == _DRIVER_NOT_LOADED or (code == _LIBRARY_NOT_FOUND and not driver_is_there):
        return NvmlAbsentError(f"no NVIDIA driver on this machine ({error})", code)
    return NvmlBrokenError(_message(error, "The NVIDIA driver is installed, but NVML cannot be used"), code)


def typed(error: Any) -> NvmlError:  # noqa: ANN401 - pynvml has no types
    """Convert an error of pynvml: to GpuLostError (code in LOST), NvmlBrokenError (code in FATAL), else NvmlError."""
    code = int(error.value)
    kind = GpuLostError if code in LOST else NvmlBrokenError if code in FATAL else NvmlError
    return kind(_message(error, "NVML"), code)


def _message(error: Any, subject: str) -> str:  # noqa: ANN401 - pynvml has no types
    advice = _WHAT_TO_DO.get(int(error.value), "Look into `nvidia-smi` and the kernel log")
    return f"{subject}: {error} (code {error.value}). {advice}"
