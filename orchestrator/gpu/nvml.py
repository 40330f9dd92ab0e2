"""NVML, typed: facts, readings and processes of each GPU by UUID, whatever CUDA_VISIBLE_DEVICES is.

Uses nvidia-ml-py (module `pynvml`). A MIG slice has its own memory and processes; other readings are those of its GPU.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from orchestrator.gpu.nvml_errors import FATAL, LOST, NOT_FOUND, GpuLostError, NvmlError, typed, unusable
from protocol.cell import Device, DeviceKind
from protocol.messages import Sample

T = TypeVar("T")

_LIBRARY: Final = "libnvidia-ml.so.1"
_DRIVER_IS_THERE: Final = Path("/dev/nvidiactl")
_SLICE: Final = "MIG-"


def missing() -> NvmlError | None:
    """Return an NvmlAbsentError or NvmlBrokenError if NVML's library cannot be loaded, else None. Calls no driver."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        import pynvml

        error = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        return unusable(error, driver_is_there=_DRIVER_IS_THERE.exists())
    return None


def is_slice(uuid: str) -> bool:
    """Whether the UUID is that of a MIG slice ("MIG-…")."""
    return uuid.startswith(_SLICE)


class UnreadableGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that NVML counts but cannot read. index: its place in NVML's order. reason: NVML's error as text."""

    index: int
    reason: str


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process with a context on a GPU. compute: False if it only draws. used_bytes: GPU memory, None if unknown."""

    pid: int
    used_bytes: int | None
    compute: bool


class Nvml:
    """NVML, open until `close`. Raises NvmlAbsentError without a driver, NvmlBrokenError if the driver is broken.

    Methods with a UUID raise GpuLostError if the GPU does not answer or NVML does not show it, and other NvmlErrors if
    NVML itself fails.
    """

    def __init__(self) -> None:
        import pynvml

        self._lib: Any = pynvml
        self._handles: dict[str, Any] = {}
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise unusable(error, driver_is_there=_DRIVER_IS_THERE.exists()) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Shut NVML down. Errors are ignored."""
        with contextlib.suppress(self._lib.NVMLError):
            self._lib.nvmlShutdown()

    @property
    def driver_version(self) -> str | None:
        """Version of the driver, such as "580.95.05"; None if unknown."""
        return self._read_or_none(self._lib.nvmlSystemGetDriverVersion)

    @property
    def cuda_driver_version(self) -> str | None:
        """Newest CUDA version that the driver supports, such as "13.0"; None if unknown."""
        version: int | None = self._read_or_none(self._lib.nvmlSystemGetCudaDriverVersion_v2)
        return None if version is None else f"{version // 1000}.{version % 1000 // 10}"

    def gpus(self) -> tuple[Device | UnreadableGpu, ...]:
        """Return all GPUs in NVML's order, but no slices; `gpu_id`: index. Raises NvmlError if NVML cannot count."""
        return tuple(self._gpu(index) for index in range(self._required(self._lib.nvmlDeviceGetCount)))

    def read(self, uuid: str) -> Sample:
        """Return the values of a GPU now, None where NVML refuses. For a slice: those of its GPU, but own memory."""
        lib, handle = self._lib, self._whole(uuid)
        at_ns = time.monotonic_ns()
        utilization = self._read_or_none(lib.nvmlDeviceGetUtilizationRates, handle)
        thermal = self._read_or_none(lib.nvmlDeviceGetViolationStatus, handle, lib.NVML_PERF_POLICY_THERMAL)
        power = self._read_or_none(lib.nvmlDeviceGetViolationStatus, handle, lib.NVML_PERF_POLICY_POWER)
        return Sample(
            at_ns=at_ns,
            gpu_percent=utilization and utilization.gpu,
            memory_percent=utilization and utilization.memory,
            memory_used_bytes=self.memory_used(uuid),
            power_mw=self._read_or_none(lib.nvmlDeviceGetPowerUsage, handle),
            energy_mj=self._read_or_none(lib.nvmlDeviceGetTotalEnergyConsumption, handle),
            # Deprecated in favour of nvmlDeviceGetTemperatureV, which drivers before 570 do not have.
            temperature_c=self._read_or_none(lib.nvmlDeviceGetTemperature, handle, lib.NVML_TEMPERATURE_GPU),
            sm_clock_mhz=self._read_or_none(lib.nvmlDeviceGetClockInfo, handle, lib.NVML_CLOCK_SM),
            memory_clock_mhz=self._read_or_none(lib.nvmlDeviceGetClockInfo, handle, lib.NVML_CLOCK_MEM),
            reasons=self._read_or_none(lib.nvmlDeviceGetCurrentClocksEventReasons, handle),
            thermal_violation_ns=thermal and thermal.violationTime,
            power_violation_ns=power and power.violationTime,
        )

    def ask(self, uuid: str, question: Callable[[Any, Any], T]) -> T:
        """Return the result of `question`, called with the module pynvml and the GPU's handle.

        uuid: of a GPU, or of a slice. For a slice, the handle is that of its GPU. Raises NvmlError if NVML refuses.
        """
        return self._required(question, self._lib, self._whole(uuid))

    def ask_slice(self, uuid: str, question: Callable[[Any, Any], T]) -> T:
        """Return the result of `question`, called with the module pynvml and the slice's own handle.

        Raises NvmlError if NVML refuses.
        """
        return self._required(question, self._lib, self._handle(uuid))

    def call(self, question: Callable[[Any], T]) -> T:
        """Return the result of `question`, called with the module pynvml. Raises NvmlError if NVML refuses."""
        return self._required(question, self._lib)

    def memory_used(self, uuid: str) -> int | None:
        """Return the bytes in use on a GPU or slice, without those that the driver reserves; None if NVML refuses."""
        memory = self._memory(self._handle(uuid))
        return None if memory is None else int(memory.used)

    def memory_total(self, uuid: str) -> int | None:
        """Return the total memory of a GPU or slice in bytes; None if NVML refuses."""
        memory = self._memory(self._handle(uuid))
        return None if memory is None else int(memory.total)

    def processes(self, uuid: str) -> tuple[GpuProcess, ...] | None:
        """Return the processes with a context on the GPU or slice, ordered by PID.

        None if NVML cannot list those that compute. If it cannot list those that only draw, they are missing.
        """
        lib, handle = self._lib, self._handle(uuid)
        found: dict[int, GpuProcess] = {}
        for compute, ask in (
            (False, lib.nvmlDeviceGetGraphicsRunningProcesses),
            (True, lib.nvmlDeviceGetComputeRunningProcesses),
        ):
            entries = self._read_or_none(ask, handle)
            if entries is None and compute:
                return None
            for entry in entries or ():
                found[entry.pid] = GpuProcess(pid=entry.pid, used_bytes=entry.usedGpuMemory, compute=compute)
        return tuple(found[pid] for pid in sorted(found))

    def _gpu(self, index: int) -> Device | UnreadableGpu:
        lib = self._lib
        try:
            handle = self._required(lib.nvmlDeviceGetHandleByIndex, index)
            uuid = self._required(lib.nvmlDeviceGetUUID, handle)
            self._handles[uuid] = handle
            return self._facts(index, uuid, handle)
        except NvmlError as error:
            return UnreadableGpu(index=index, reason=str(error))

    def _facts(self, index: int, uuid: str, handle: Any) -> Device:  # noqa: ANN401 - a ctypes pointer of pynvml
        lib, read = self._lib, self._read_or_none
        memory = self._memory(handle)
        pci = read(lib.nvmlDeviceGetPciInfo, handle)
        limit_mw = read(lib.nvmlDeviceGetEnforcedPowerLimit, handle)
        capability = read(lib.nvmlDeviceGetCudaComputeCapability, handle)
        return Device(
            uuid=uuid,
            gpu_id=index,
            kind=DeviceKind.CUDA,
            name=self._required(lib.nvmlDeviceGetName, handle),
            cpus=self._cpus(handle),
            memory_total_bytes=memory and memory.total,
            memory_used_bytes=memory and memory.used,
            driver_version=self.driver_version,
            cuda_driver_version=self.cuda_driver_version,
            compute_capability=capability and "{}.{}".format(*capability),
            architecture=_architecture(lib, read(lib.nvmlDeviceGetArchitecture, handle)),
            serial=read(lib.nvmlDeviceGetSerial, handle) or None,
            pci_address=pci and pci.busId,
            part_number=read(lib.nvmlDeviceGetBoardPartNumber, handle) or None,
            vbios_version=read(lib.nvmlDeviceGetVbiosVersion, handle) or None,
            power_limit_w=None if limit_mw is None else limit_mw / 1000,
            ecc_enabled=_first_flag(read(lib.nvmlDeviceGetEccMode, handle)),
            mig_enabled=_first_flag(read(lib.nvmlDeviceGetMigMode, handle)),
            persistence_mode=_flag(read(lib.nvmlDeviceGetPersistenceMode, handle)),
            # An idle link runs at a lower generation to save power, but never at a lower width: so the highest
            # generation that card and slot agree on, and the width that was really trained.
            pcie_generation=read(lib.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            pcie_width=read(lib.nvmlDeviceGetCurrPcieLinkWidth, handle),
        )

    def _cpus(self, handle: Any) -> tuple[int, ...]:  # noqa: ANN401 - a ctypes pointer of pynvml
        words = -(-os.sysconf("SC_NPROCESSORS_CONF") // 64)
        mask = self._read_or_none(self._lib.nvmlDeviceGetCpuAffinity, handle, words) or ()
        return tuple(64 * word + bit for word, bits in enumerate(mask) for bit in range(64) if bits >> bit & 1)

    def _memory(self, handle: Any) -> Any:  # noqa: ANN401 - a ctypes pointer and a ctypes struct of pynvml
        # Version 1 counts the memory that the driver reserves as used.
        return self._read_or_none(self._lib.nvmlDeviceGetMemoryInfo, handle, self._lib.nvmlMemory_v2)

    def _handle(self, uuid: str) -> Any:  # noqa: ANN401 - a ctypes pointer of pynvml
        if uuid not in self._handles:
            try:
                self._handles[uuid] = self._required(self._lib.nvmlDeviceGetHandleByUUID, uuid)
            except NvmlError as error:
                if error.code == NOT_FOUND:
                    raise GpuLostError(f"NVML shows no {uuid}", NOT_FOUND) from error
                raise
        return self._handles[uuid]

    def _whole(self, uuid: str) -> Any:  # noqa: ANN401 - a ctypes pointer of pynvml
        own = self._handle(uuid)
        if not is_slice(uuid):
            return own
        return self._required(self._lib.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, own)

    def _required(self, call: Callable[..., T], *arguments: object) -> T:
        try:
            return call(*arguments)
        except self._lib.NVMLError as error:
            raise typed(error) from error
        except UnicodeDecodeError as error:
            raise NvmlError(f"{call.__name__} gave text that cannot be read: {error}") from error

    def _read_or_none(self, call: Callable[..., T], *arguments: object) -> T | None:
        """Return the result of `call`, a function of pynvml, or None if NVML refuses it. arguments: those of `call`.

        Also None if the result is a text that cannot be decoded. Raises NvmlError if the GPU is lost or NVML is broken.
        """
        try:
            return call(*arguments)
        except self._lib.NVMLError as error:
            if error.value in LOST | FATAL:
                raise typed(error) from error
            return None
        except UnicodeDecodeError:
            return None  # a damaged InfoROM gives bytes that are no text


def _architecture(lib: Any, number: int | None) -> str | None:  # noqa: ANN401 - the module pynvml, which has no types
    prefix = "NVML_DEVICE_ARCH_"
    names = {getattr(lib, name): name.removeprefix(prefix).capitalize() for name in dir(lib) if name.startswith(prefix)}
    return names.get(number) if number != lib.NVML_DEVICE_ARCH_UNKNOWN else None


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _first_flag(current_and_pending: list[int] | None) -> bool | None:
    return _flag(current_and_pending[0]) if current_and_pending else None
