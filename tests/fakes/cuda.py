"""Builds the CUDA driver of tests/fakes/cuda.c, enough to begin a run and not to compute, beside the NVML of nvml.py.

environment = nvml.environment | beside(nvml, init=802)            # CUDA has the GPUs of NVML, cuInit says 802
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
    """The environment of a CUDA driver with the first `gpus` GPUs, and these MIG slices, beside this NVML.

    init, count: what cuInit and cuDeviceGetCount do, as cuda.c explains it.
    """
    return {
        "LD_LIBRARY_PATH": f"{library_folder()}:{nvml.environment['LD_LIBRARY_PATH']}",
        "GPUBENCH_FAKE_CUDA_GPUS": ",".join((*map(uuid, range(gpus)), *slices)),
        "GPUBENCH_FAKE_CUDA_INIT": str(init),
        "GPUBENCH_FAKE_CUDA_COUNT": str(count),
    }
