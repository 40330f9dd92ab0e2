"""Read NVML's health values of one GPU, in NVML's units: counts, ns, degrees C, mW."""

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from orchestrator.gpu.health.records import UNSUPPORTED, Vitals
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import (
    CORRUPTED_INFOROM,
    GPU_IS_LOST,
    NOT_FOUND,
    RESET_REQUIRED,
    GpuLostError,
    NvmlError,
)

Question = Callable[[ModuleType, object], int]

_NOT_SUPPORTED: Final = 3
_INVALID_ARGUMENT: Final = 2
_BROKEN: Final = {
    CORRUPTED_INFOROM: "the InfoROM of the GPU is damaged",
    GPU_IS_LOST: "the GPU has fallen off the bus",
    RESET_REQUIRED: "the GPU needs a reset",
    NOT_FOUND: "NVML no longer shows the GPU",
}
"""NVML's error code → fault of the GPU. With a damaged InfoROM, other values can still be read."""
_REFUSED: Final = {
    _NOT_SUPPORTED: UNSUPPORTED,
    4: "no permission",
    13: "this driver does not have the function",
}
# Fields of nvmlDeviceGetFieldValues.
_NVLINK_ERRORS: Final = (38, 52, 59)  # totals over all links: flow control CRC, replay, recovery
_MEMORY_TEMPERATURE: Final = 82
_SLOWDOWN_T_LIMIT: Final = 194
_RECOVERY_ACTION: Final = 230


def vitals(nvml: Nvml, uuid: str) -> Vitals:
    """Read all health values of a GPU. `refusals` of the result: why values are missing. `broken`: how it was lost."""
    at_ns = time.monotonic_ns()
    values: dict[str, int] = {}
    refusals: dict[str, str] = {}
    damaged = broken = ""
    for name, question in QUESTIONS.items():
        try:
            values[name] = nvml.ask(uuid, question)
        except NvmlError as error:
            if isinstance(error, GpuLostError):
                broken = refused(error)
                break
            refusals[name] = refused(error)
            if error.code == CORRUPTED_INFOROM:
                damaged = refused(error)
    return Vitals(at_ns=at_ns, uuid=uuid, values=values, refusals=refusals, damaged=damaged, broken=broken)


def refused(error: NvmlError) -> str:
    """Return in words why NVML gave no value: "no permission", "NVML error 5"."""
    if isinstance(error, GpuLostError) or error.code == CORRUPTED_INFOROM:
        return f"{_BROKEN[error.code]} (NVML error {error.code})"
    return _REFUSED.get(error.code, f"NVML error {error.code}")


def _ecc(kind: str, lifetime: str) -> Question:
    def ask(lib: ModuleType, gpu: object) -> int:
        return int(lib.nvmlDeviceGetTotalEccErrors(gpu, getattr(lib, kind), getattr(lib, lifetime)))

    return ask


def _simple(function: str) -> Question:
    def ask(lib: ModuleType, gpu: object) -> int:
        return int(getattr(lib, function)(gpu))

    return ask


def _sram_threshold(lib: ModuleType, gpu: object) -> int:
    status = lib.c_nvmlEccSramErrorStatus_v1_t()
    lib.nvmlDeviceGetSramEccErrorStatus(gpu, lib.byref(status))
    return int(status.bThresholdExceeded)


def _retired_pages(lib: ModuleType, gpu: object) -> int:
    causes = range(lib.NVML_PAGE_RETIREMENT_CAUSE_COUNT)
    return sum(len(lib.nvmlDeviceGetRetiredPages(gpu, cause)) for cause in causes)


def _fields(lib: ModuleType, gpu: object, *numbers: int) -> list[Any]:
    answers = list(lib.nvmlDeviceGetFieldValues(gpu, list(numbers)))
    good = [answer.value for answer in answers if answer.nvmlReturn == lib.NVML_SUCCESS]
    if not good:
        raise lib.NVMLError(answers[0].nvmlReturn)
    return good


def _gpu_margin(lib: ModuleType, gpu: object) -> int:
    """Return the degrees left until the GPU slows itself down: by T.Limit from Ada on, by a threshold before."""
    try:
        margin = int(lib.nvmlDeviceGetMarginTemperature(gpu))
        return margin - int(_fields(lib, gpu, _SLOWDOWN_T_LIMIT)[0].siVal)
    except lib.NVMLError as error:
        if error.value in _BROKEN:
            raise
    limit = lib.nvmlDeviceGetTemperatureThreshold(gpu, lib.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    return int(limit) - int(lib.nvmlDeviceGetTemperature(gpu, lib.NVML_TEMPERATURE_GPU))


def _memory_margin(lib: ModuleType, gpu: object) -> int:
    limit = lib.nvmlDeviceGetTemperatureThreshold(gpu, lib.NVML_TEMPERATURE_THRESHOLD_MEM_MAX)
    return int(limit) - int(_fields(lib, gpu, _MEMORY_TEMPERATURE)[0].uiVal)


def _nvlinks_up(lib: ModuleType, gpu: object) -> int:
    up = 0
    for link in range(lib.NVML_NVLINK_MAX_LINKS):
        try:
            up += int(lib.nvmlDeviceGetNvLinkState(gpu, link))
        except lib.NVMLError as error:
            if link and error.value in {_INVALID_ARGUMENT, _NOT_SUPPORTED}:
                break  # the board has no more links than these
            raise
    return up


def _fabric(part: str) -> Question:
    def ask(lib: ModuleType, gpu: object) -> int:
        info = lib.c_nvmlGpuFabricInfo_t()
        lib.nvmlDeviceGetGpuFabricInfo(gpu, lib.byref(info))
        return int(getattr(info, part))

    return ask


_UNCORRECTED: Final = "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"

QUESTIONS: Final[dict[str, Question]] = {
    "ecc_uncorrected": _ecc(_UNCORRECTED, "NVML_VOLATILE_ECC"),
    "ecc_corrected": _ecc("NVML_MEMORY_ERROR_TYPE_CORRECTED", "NVML_VOLATILE_ECC"),
    "ecc_uncorrected_lifetime": _ecc(_UNCORRECTED, "NVML_AGGREGATE_ECC"),
    "sram_threshold": _sram_threshold,
    "rows_pending": lambda lib, gpu: int(lib.nvmlDeviceGetRemappedRows(gpu)[2]),
    "rows_failed": lambda lib, gpu: int(lib.nvmlDeviceGetRemappedRows(gpu)[3]),
    "retired_pages": _retired_pages,
    "recovery_action": lambda lib, gpu: int(_fields(lib, gpu, _RECOVERY_ACTION)[0].uiVal),
    "thermal_violation_ns": lambda lib, gpu: int(
        lib.nvmlDeviceGetViolationStatus(gpu, lib.NVML_PERF_POLICY_THERMAL).violationTime
    ),
    "gpu_margin_c": _gpu_margin,
    "memory_margin_c": _memory_margin,
    "gpu_percent": lambda lib, gpu: int(lib.nvmlDeviceGetUtilizationRates(gpu).gpu),
    "power_limit_mw": _simple("nvmlDeviceGetEnforcedPowerLimit"),
    "power_default_mw": _simple("nvmlDeviceGetPowerManagementDefaultLimit"),
    "pcie_replays": _simple("nvmlDeviceGetPcieReplayCounter"),
    "pcie_generation": _simple("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_generation_max": _simple("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width": _simple("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_width_max": _simple("nvmlDeviceGetMaxPcieLinkWidth"),
    "peers": lambda lib, _gpu: int(lib.nvmlDeviceGetCount()) - 1,
    "nvlinks_up": _nvlinks_up,
    "nvlink_errors": lambda lib, gpu: sum(int(value.ullVal) for value in _fields(lib, gpu, *_NVLINK_ERRORS)),
    "fabric_state": _fabric("state"),
    "fabric_status": _fabric("status"),
}
