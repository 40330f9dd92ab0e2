"""GPUs read by the real nvidia-ml-py from a fake NVML library, each time in a new process."""

from pathlib import Path
from typing import Any

import pynvml
import pytest

from orchestrator.gpu.nvml_errors import NvmlAbsentError, NvmlBrokenError, NvmlError, unusable
from tests.fakes.nvml import FakeNvml, uuid

READ = """
import sys, msgspec
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import NvmlError
def attempt(call):
    try:
        return call()
    except NvmlError as error:
        return [type(error).__name__, error.code, str(error)]
def everything():
    with Nvml() as nvml:
        gpus = nvml.gpus()
        uuids = [gpu.uuid for gpu in gpus if hasattr(gpu, "uuid")]
        return {
            "driver": nvml.driver_version,
            "cuda": nvml.cuda_driver_version,
            "gpus": gpus,
            "samples": {uuid: attempt(lambda: nvml.read(uuid)) for uuid in uuids},
            "processes": {uuid: nvml.processes(uuid) for uuid in uuids},
        }
sys.stdout.buffer.write(msgspec.json.encode(attempt(everything)))
"""


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    """A node with two GPUs."""
    return FakeNvml(tmp_path, gpus=2)


def test_a_gpu_is_described_completely(fake: FakeNvml) -> None:
    """Every fact of a healthy GPU is read, in the units that Device promises."""
    seen: Any = fake.python(READ)
    assert seen["driver"] == "580.95.05"
    assert seen["cuda"] == "13.0"
    assert seen["gpus"][1] == {
        "uuid": uuid(1),
        "gpu_id": 1,
        "kind": "cuda",
        "name": "NVIDIA H200",
        "slice_of": None,
        "slice_index": None,
        "shared_gpu": False,
        "cpus": [0, 1],
        "shared_cores": False,
        "memory_total_bytes": 150_754_820_096,
        "memory_used_bytes": 0,
        "driver_version": "580.95.05",
        "cuda_driver_version": "13.0",
        "compute_capability": "9.0",
        "architecture": "Hopper",
        "serial": "1650123000001",
        "pci_address": "00000000:1C:00.0",
        "part_number": "692-2G520-0280-001",
        "vbios_version": "96.00.CF.00.0B",
        "power_limit_w": 700.0,
        "ecc_enabled": True,
        "mig_enabled": False,
        "persistence_mode": True,
        "pcie_generation": 5,
        "pcie_width": 16,
        "busy_with": None,
    }


def test_a_sample_holds_every_reading(fake: FakeNvml) -> None:
    """Each reading lands in the field of its name, 64-bit counters and masks whole."""
    readings = {
        "gpu_percent": 97,
        "memory_percent": 41,
        "memory_used_bytes": 139 * 2**30,
        "power_mw": 691_250,
        "energy_mj": 2**53 + 1,
        "temperature_c": 67,
        "sm_clock_mhz": 1485,
        "memory_clock_mhz": 3201,
        "reasons": 2**63 | 0x4,
        "thermal_violation_ns": 2**40,
        "power_violation_ns": 2**41,
    }
    fake.set({f"gpu.0.{name}": value for name, value in readings.items()})
    seen: Any = fake.python(READ)
    sample = seen["samples"][uuid(0)]
    assert sample.pop("at_ns") > 0
    assert sample == readings


@pytest.mark.parametrize("code", [3, 4, 13, 14])
def test_unreadable_values_are_none(fake: FakeNvml, code: int) -> None:
    """NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND and CORRUPTED_INFOROM cost one field, not the GPU."""
    for function in ("GetSerial", "GetPowerUsage", "GetViolationStatus", "GetCpuAffinity", "GetMigMode"):
        fake.fail(f"nvmlDevice{function}", code, gpu=0)
    seen: Any = fake.python(READ)
    gpu, sample = seen["gpus"][0], seen["samples"][uuid(0)]
    assert (gpu["serial"], gpu["cpus"], gpu["mig_enabled"]) == (None, [], None)
    assert (sample["power_mw"], sample["thermal_violation_ns"]) == (None, None)
    assert gpu["vbios_version"] is not None
    assert sample["energy_mj"] is not None


@pytest.mark.parametrize(
    ("code", "what_to_do"), [(14, "InfoROM is damaged"), (15, "off the bus"), (16, "Reset the GPU")]
)
def test_a_lost_gpu_has_a_reason_and_the_others_are_read(fake: FakeNvml, code: int, what_to_do: str) -> None:
    """It keeps its place in the list."""
    fake.fail("*", code, gpu=0)
    seen: Any = fake.python(READ)
    assert seen["gpus"][0]["index"] == 0
    assert what_to_do in seen["gpus"][0]["reason"]
    assert seen["gpus"][1]["uuid"] == uuid(1)


@pytest.mark.parametrize("code", [15, 16])
def test_a_gpu_lost_while_it_is_read_is_a_typed_error(fake: FakeNvml, code: int) -> None:
    """Losing a GPU is not the same as a reading that it does not have."""
    fake.fail("nvmlDeviceGetPowerUsage", code, gpu=1)
    seen: Any = fake.python(READ)
    assert seen["samples"][uuid(1)][:2] == ["GpuLostError", code]
    assert seen["samples"][uuid(0)]["power_mw"] == 76_000


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (9, "NvmlAbsentError", "no NVIDIA driver"),
        (18, "NvmlBrokenError", "in use"),
        (4, "NvmlBrokenError", "/dev/nvidia*"),
        (15, "NvmlBrokenError", "off the bus"),
        (999, "NvmlBrokenError", "kernel log"),
    ],
)
def test_a_missing_driver_differs_from_a_broken_one(fake: FakeNvml, code: int, kind: str, words: str) -> None:
    """The message of each says what to do."""
    fake.fail("nvmlInit", code)
    seen: Any = fake.python(READ)
    assert seen[:2] == [kind, code]
    assert words in seen[2]


@pytest.mark.parametrize(("driver_is_there", "kind"), [(False, NvmlAbsentError), (True, NvmlBrokenError)])
def test_a_missing_library_beside_a_driver_is_broken(driver_is_there: bool, kind: type[NvmlError]) -> None:
    """A container with the device files and without libnvidia-ml.so.1 has GPUs that cannot be read, not none."""
    assert type(unusable(pynvml.NVMLError(12), driver_is_there=driver_is_there)) is kind


def test_processes_are_merged_by_pid(tmp_path: Path, fake: FakeNvml) -> None:
    """Compute wins over graphics for a process that does both; unknown memory and processes are None."""
    seen: Any = FakeNvml(tmp_path, gpus=0).python(READ)
    assert seen["gpus"] == []
    fake.set({"gpu.0.compute": "4711 13207024435 12 -1", "gpu.0.graphics": "12 5 99 1048576"})
    fake.fail("nvmlDeviceGetComputeRunningProcesses", 4, gpu=1)
    seen: Any = fake.python(READ)
    assert seen["processes"][uuid(0)] == [
        {"pid": 12, "used_bytes": None, "compute": True},
        {"pid": 99, "used_bytes": 1048576, "compute": False},
        {"pid": 4711, "used_bytes": 13207024435, "compute": True},
    ]
    assert seen["processes"][uuid(1)] is None
