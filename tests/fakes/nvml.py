"""Builds the NVML of tests/fakes/nvml.c, writes its script, and runs Python in processes that load it, once each.

fake = FakeNvml(tmp_path, gpus=8)
fake.set({"gpu.3.power_mw": 690_000})
fake.fail("nvmlDeviceGetPowerUsage", 15, gpu=3)
"""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
_SOURCE = Path(__file__).with_name("nvml.c")
_COMPILERS = ("cc", "gcc", "clang")
_NOT_INHERITED = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")


def compiler() -> str:
    """A C compiler. Skips the test where there is none."""
    found = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if found is None:
        pytest.skip(f"no C compiler ({', '.join(_COMPILERS)}) to build the libraries of tests/fakes")
    return found


@functools.cache
def library_folder() -> Path:
    """Folder with our libnvidia-ml.so.1, built once a session. Skips the test where there is no C compiler."""
    folder = Path(tempfile.mkdtemp(prefix="gpubench-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler(), "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, _SOURCE], check=True)
    return folder


def uuid(index: int) -> str:
    """UUID of the fake's GPU `index`; their first digits differ."""
    return f"GPU-{0x5317350E + index * 0x01010101:08x}-0000-4000-8000-{index:012x}"


def slice_uuid(index: int, place: int) -> str:
    """UUID of the fake's slice `place` of GPU `index`; their first digits differ."""
    return f"MIG-{0x9A104711 + (8 * index + place) * 0x01010101:08x}-0000-4000-8000-{index:06x}{place:06x}"


def until_it_loads(library: str, parent: int) -> psutil.Process:
    """Wait for the child that has loaded a library; before that it asked to end with its parent."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        for child in psutil.Process(parent).children():
            if library in Path(f"/proc/{child.pid}/maps").read_text():
                return child
        time.sleep(0.02)
    raise AssertionError(f"it never loaded {library}")


def gpu(index: int) -> dict[str, object]:
    """What one healthy, idle H200 answers."""
    return {
        "uuid": uuid(index),
        "name": "NVIDIA H200",
        "serial": f"165012300{index:04}",
        "part_number": "692-2G520-0280-001",
        "vbios_version": "96.00.CF.00.0B",
        "pci_address": f"00000000:{0x1B + index:02X}:00.0",
        "compute_capability": "9.0",
        "architecture": 9,
        "power_limit_mw": 700_000,
        "ecc": 1,
        "persistence_mode": 1,
        "pcie_generation": 5,
        "pcie_width": 16,
        "cpus": "0 1",
        "memory_total_bytes": 150_754_820_096,
        "power_mw": 76_000,
        "energy_mj": 1_000_000,
        "temperature_c": 31,
        "sm_clock_mhz": 345,
        "memory_clock_mhz": 3201,
        "reasons": "0x1",
        "power_default_mw": 700_000,
        "pcie_generation_now": 5,
        "pcie_width_max": 16,
        "margin_c": 51,
        "memory_max_c": 95,
        "nvlinks": 18,
        "nvlinks_up": 18,
        "fabric_state": 3,
        **dict.fromkeys(ZEROS, 0),
        **{f"field.{number}": value for number, value in FIELDS.items()},
    }


FIELDS = {38: 0, 52: 0, 59: 0, 82: 40, 194: -2, 230: 0}
"""NVLink CRC, replay and recovery errors, memory temperature, T.Limit of the slowdown, recovery action."""
ZEROS = (
    *("mig", "memory_used_bytes", "gpu_percent", "memory_percent", "thermal_violation_ns", "power_violation_ns"),
    *("pcie_replays", "ecc_corrected", "ecc_uncorrected", "ecc_uncorrected_lifetime", "sram_threshold"),
    *("rows_pending", "rows_failed", "fabric_status"),
)
HANGS_MS = 3_600_000


class FakeNvml:
    """A scripted NVML. A change is seen by running processes at their next call."""

    def __init__(self, folder: Path, gpus: int = 2) -> None:
        self._script = folder / "nvml.script"
        self._events = 0
        self._values: dict[str, object] = {"gpus": gpus, "driver_version": "580.95.05", "cuda_driver_version": 13000}
        for index in range(gpus):
            self._values |= {f"gpu.{index}.{key}": value for key, value in gpu(index).items()}
        self.environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        self.environment |= {
            "LD_LIBRARY_PATH": str(library_folder()),
            "GPUBENCH_FAKE_NVML": str(self._script),
            "PYTHONPATH": str(ROOT),
        }
        self._write()

    def set(self, values: Mapping[str, object]) -> None:
        """Change answers; None takes one away, so that it is not supported."""
        self._values |= values
        self._values = {key: value for key, value in self._values.items() if value is not None}
        self._write()

    def fail(self, function: str, code: int, *, gpu: int | None = None) -> None:
        """Have a function (named without version suffix, "*" for all of a GPU) return an error code from now on."""
        self.set({f"error.{function}" if gpu is None else f"gpu.{gpu}.error.{function}": code})

    def vanish(self, gpu: int) -> None:
        """Have a GPU fall off the bus: from now on every question about it is answered by GPU_IS_LOST."""
        self.fail("*", 15, gpu=gpu)

    def hang(self, gpu: int | None, function: str = "*") -> None:
        """Have a function (or all) never return for a GPU, or one of the library, as far as a test is concerned."""
        self.set({f"delay.{function}" if gpu is None else f"gpu.{gpu}.delay.{function}": HANGS_MS})

    def remove(self, gpu: int) -> None:
        """Have this GPU and those behind it not be there: neither counted nor found by UUID."""
        self.set({"gpus": gpu})

    def cut(self, gpu: int, *profiles: str) -> tuple[str, ...]:
        """Put a GPU into MIG mode and cut slices out of it. Slice 0 is GPU instance 3, as real ones begin somewhere."""
        values: dict[str, object] = {f"gpu.{gpu}.mig": 1, f"gpu.{gpu}.gpu_percent": None}
        for place, profile in enumerate(profiles):
            slice_ = {
                "uuid": slice_uuid(gpu, place),
                "name": f"NVIDIA H200 MIG {profile}",
                "gpu_instance": 3 + place,
                "memory_total_bytes": int(profile.partition(".")[2].removesuffix("gb")) * 10**9,
                "memory_used_bytes": 0,
            }
            values |= {f"gpu.{gpu}.mig.{place}.{key}": value for key, value in slice_.items()}
        self.set(values)
        return tuple(slice_uuid(gpu, place) for place in range(len(profiles)))

    def xid(self, gpu: int, number: int, *, instance: int | None = None) -> None:
        """Have a GPU report an error to those who listen already; instance: the GPU instance that it is of."""
        self._events += 1
        self.set({f"event.{self._events}": f"{gpu} {number}" + ("" if instance is None else f" {instance}")})

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have children of this process load this NVML."""
        for name in _NOT_INHERITED:
            monkeypatch.delenv(name, raising=False)
        for name in ("LD_LIBRARY_PATH", "GPUBENCH_FAKE_NVML"):
            monkeypatch.setenv(name, self.environment[name])

    def python(self, source: str, **environment: str) -> object:
        """What `source` prints, as JSON, in a fresh process that loads this NVML."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", source],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _write(self) -> None:
        fresh = self._script.with_suffix(".new")
        fresh.write_text("".join(f"{key} = {value}\n" for key, value in self._values.items()))
        fresh.replace(self._script)
