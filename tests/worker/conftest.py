"""What holds for every test of the worker."""

import gc
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from protocol.cell import Device, DeviceKind

if TYPE_CHECKING:
    from tests.fakes.own import Code
    from tests.worker.fresh import Fresh


@pytest.fixture(scope="session", autouse=True)
def frozen() -> Iterator[None]:
    """Keep the garbage collector from what was imported, as in every worker: a full collection took 0.2 s with it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None] | None:
    """Let torch compute with one thread in this process, and ignore launches that set another number.

    With several test processes, threads that wait for each other in a busy loop took ten times as long. Gives what sets
    the number of threads, or None where torch was not imported.
    """
    if (torch := sys.modules.get("torch")) is None:  # importing it here would slow every test down
        return None
    honest: Callable[[int], None] = torch.set_num_threads
    honest(1)
    monkeypatch.setattr(torch, "set_num_threads", lambda _count: None)
    return honest


@pytest.fixture
def every_core(one_thread: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch in this process has as many threads as it asks for, for tests of what they are or depend on."""
    monkeypatch.setattr("torch.set_num_threads", one_thread)


@pytest.fixture(scope="session")
def gpu() -> Device:
    """The first real GPU that a new interpreter sees."""
    if not (shutil.which("nvidia-smi") or Path("/proc/driver/nvidia/version").exists()):
        pytest.skip("this machine has no NVIDIA driver")
    script = "import torch; print(torch.cuda.get_device_properties(0).uuid)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip("torch finds no CUDA device on this machine")
    uuid = f"GPU-{done.stdout.strip().removeprefix('GPU-')}"
    return Device(uuid=uuid, gpu_id=0, kind=DeviceKind.CUDA, name="the first GPU")


@pytest.fixture(scope="session")
def fresh() -> Iterator["Fresh"]:
    """Fresh processes that share one import of torch."""
    from tests.worker.fresh import server

    with server() as started:
        yield started


@pytest.fixture
def write(tmp_path: Path) -> Iterator["Code"]:
    """Writes a Python file and describes a model in it. The modules it imports are forgotten after the test."""
    from tests.fakes.own import code

    with code(tmp_path) as written:
        yield written
