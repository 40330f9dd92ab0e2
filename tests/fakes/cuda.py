"""Builds the CUDA driver of tests/fakes/cuda.c and puts it beside the NVML of tests/fakes/nvml.py.

    nvml = FakeNvml(tmp_path, gpus=2)
    environment = nvml.environment | beside(nvml)                      # CUDA has the GPUs that NVML shows
    environment = nvml.environment | beside(nvml, init=802)            # and cuInit says so

It is enough to begin a run; a worker cannot compute with it, so the cells are those of the workload "fault".
"""

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fakes.nvml import FakeNvml, compiler, uuid

_SOURCE = Path(__file__).with_name("cuda.c")


@functools.cache
def library_folder() -> Path:
    """Folder with our libcuda.so.1, built once a session. Skips the test where there is no C compiler."""
    folder = Path(tempfile.mkdtemp(prefix="gpubench-cuda-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "libcuda.so.1"
    subprocess.run([compiler(), "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, _SOURCE], check=True)
    return folder


def beside(
    nvml: FakeNvml, *, gpus: int = 64, slices: Sequence[str] = (), init: int | str = "", count: int = 0
) -> dict[str, str]:
    """What to add to the environment, so that a CUDA driver with the first `gpus` GPUs is found beside this NVML.

    slices: UUIDs of the MIG slices that it has too.
    init, count: what cuInit and cuDeviceGetCount do, as cuda.c explains it.
    """
    return {
        "LD_LIBRARY_PATH": f"{library_folder()}:{nvml.environment['LD_LIBRARY_PATH']}",
        "GPUBENCH_FAKE_CUDA_GPUS": ",".join((*map(uuid, range(gpus)), *slices)),
        "GPUBENCH_FAKE_CUDA_INIT": str(init),
        "GPUBENCH_FAKE_CUDA_COUNT": str(count),
    }
