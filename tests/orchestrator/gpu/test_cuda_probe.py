"""Whether CUDA works, found out by the real process on a fake CUDA driver: each way to fail, and its message."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from orchestrator.errors import DeviceError
from orchestrator.gpu import cuda_probe
from orchestrator.gpu.cuda_probe import Finding
from orchestrator.system import subprocess_query
from orchestrator.system.subprocess_query import Silence
from protocol.cell import Device, DeviceKind
from tests.fakes.cuda import beside
from tests.fakes.nvml import ROOT, FakeNvml, slice_uuid, until_it_loads, uuid
from tests.fakes.spies import spy

GPUS = [Device(uuid=uuid(index), gpu_id=index, kind=DeviceKind.CUDA, name="NVIDIA H200") for index in range(3)]
UUIDS = [gpu.uuid for gpu in GPUS]

Script = Callable[..., None]


@pytest.fixture
def cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """Makes children of this process find our CUDA, as scripted; none of them and no descriptor may remain."""
    nvml = FakeNvml(tmp_path)

    def script(**says: int | str | Sequence[str]) -> None:
        for name, value in beside(nvml, **says).items():  # type: ignore[arg-type]  # each is of its own type
            monkeypatch.setenv(name, value)

    script()
    before = (descriptors(), psutil.Process().children())
    yield script
    assert (descriptors(), psutil.Process().children()) == before


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def refused() -> str:
    """The error of a run on three GPUs."""
    with pytest.raises(DeviceError) as caught:
        cuda_probe.require(GPUS)
    words = str(caught.value)
    assert words.endswith("Nothing was started.")
    return words


# ── where all is well ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_slice_is_tried_alone(cuda: Script) -> None:
    """CUDA shows a process at most one MIG slice; the error has the slice that is missing."""
    slices = [
        Device(uuid=slice_uuid(0, place), gpu_id=0, slice_index=place, kind=DeviceKind.CUDA, name="a", slice_of=uuid(0))
        for place in range(2)
    ]
    cuda(slices=[one.uuid for one in slices])
    assert cuda_probe.look([one.uuid for one in slices]) == Finding(count=1)
    cuda_probe.require([GPUS[1], *slices, GPUS[2]])
    cuda(slices=[slices[0].uuid])
    with pytest.raises(DeviceError, match=rf"GPU 0:1 \({slices[1].uuid}\).*nvidia-smi -L"):
        cuda_probe.require([GPUS[1], *slices, GPUS[2]])


def test_a_cuda_that_works_sees_the_gpus_of_the_run_alone(cuda: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever CUDA_VISIBLE_DEVICES was. A run on the CPU needs no CUDA."""
    assert cuda_probe.look(UUIDS) == Finding(count=3)
    cuda_probe.require(GPUS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,1")
    assert cuda_probe.look([uuid(5), uuid(2)]) == Finding(count=2)
    cuda(init=999)
    cuda_probe.require([Device(uuid="cpu:0", gpu_id=0, kind=DeviceKind.CPU, name="a processor")])


# ── what can be wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "said", "advice"),
    [
        (46, "46 (CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA-capable device(s) is/are busy", "prohibited mode"),
        (12345, "12345.", "nvidia-smi"),
    ],
)
def test_an_error_has_its_code_and_advice(cuda: Script, code: int, said: str, advice: str) -> None:
    """With the failed call, and CUDA's own name and words for it where it has them."""
    cuda(init=code)
    words = refused()
    assert "cuInit" in words
    assert said in words
    assert advice in words
    cuda(count=code)
    assert "cuDeviceGetCount" in refused()


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (34, "LD_LIBRARY_PATH"),
        (35, "Update the driver"),
        (100, rf"no GPU 0 \({UUIDS[0]}\).*docker run --gpus all"),
        (101, "--gpu-ids"),
        (802, "systemctl start nvidia-fabricmanager"),
        (803, "updated"),
        (805, "nvidia-cuda-mps-control -d"),
        (999, "modprobe nvidia-uvm"),
    ],
)
def test_known_errors_have_advice_of_their_own(code: int, advice: str) -> None:
    """By their numbers."""
    assert re.search(
        f"cuInit returns {code}[,.].*{advice}", cuda_probe.trouble(Finding(step="cuInit", code=code), GPUS)
    )


@pytest.mark.parametrize(
    ("shown", "message"), [(2, rf"2 of 3.*GPU 2 \({uuid(2)}\)"), (0, rf"CUDA_ERROR_NO_DEVICE.*GPU 0 \({uuid(0)}\)")]
)
def test_the_first_gpu_that_cuda_does_not_have(cuda: Script, shown: int, message: str) -> None:
    """NVML shows three; CUDA's list ends before the one that it cannot use."""
    cuda(gpus=shown)
    assert re.search(message, refused())


def test_more_gpus_than_visible_are_trouble() -> None:
    """A driver that ignores CUDA_VISIBLE_DEVICES would measure the wrong GPU."""
    assert re.search(r"8.*3", cuda_probe.trouble(Finding(count=8), GPUS))


def test_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with nvidia-smi alone shows GPUs by NVML and has no libcuda.so.1."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        FakeNvml(tmp_path).install(monkeypatch)
        assert re.search("libcuda.so.1.*NVIDIA_DRIVER_CAPABILITIES=compute,utility", refused())
    else:
        pytest.skip("this machine has a libcuda.so.1")


def test_a_broken_library_and_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: Script) -> None:
    """A container runtime that failed leaves empty files. A crash has its signal and the last printed line."""
    (tmp_path / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert re.search(r"libcuda\.so\.1 .*loaded \(", refused())
    cuda(init="crash")
    assert re.search("SIGABRT.*driver has fallen", refused())


# ── a hang ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("hang", "patience_s", "numbers"),
    [("hang", 30.0, [signal.SIGTERM]), ("hang, deaf to SIGTERM", 0.2, [signal.SIGTERM, signal.SIGKILL])],
)
def test_a_hang_is_ended(
    cuda: Script, monkeypatch: pytest.MonkeyPatch, hang: str, patience_s: float, numbers: list[signal.Signals]
) -> None:
    """A cuInit that does not return is ended after its time: SIGTERM first, SIGKILL where that is ignored."""
    cuda(init=hang)
    hear = subprocess_query._heard
    sent = spy(monkeypatch, signal, "pidfd_send_signal", lambda _, _pidfd, number: number)

    def heard_once_it_hangs(pidfd: int, answer: int, output: bytearray, _: float) -> bool:
        probe = until_it_loads("libcuda.so.1", os.getpid())
        while signal.SIGKILL in numbers and not ignores(probe.pid, signal.SIGTERM):
            time.sleep(0.01)
        return hear(pidfd, answer, output, time.monotonic() + 0.1)

    monkeypatch.setattr(subprocess_query, "_heard", heard_once_it_hangs)
    monkeypatch.setattr(subprocess_query, "_PATIENCE_S", patience_s)
    heard = cuda_probe.look(UUIDS, timeout_s=1.0)
    assert sent == numbers
    assert heard == Silence(seconds=1.0)
    assert re.search("cuInit hangs.* 1 s", cuda_probe.trouble(heard, GPUS))


def test_ctrl_c_during_a_hang_leaves_nothing_behind(cuda: Script) -> None:
    """It does not wait until the minute is over."""
    cuda(init="hang")

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(KeyboardInterrupt):
            cuda_probe.look(UUIDS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_hang_does_not_outlive_a_killed_orchestrator(cuda: Script) -> None:
    """The kernel ends it with its parent."""
    cuda(init="hang")
    source = f"from orchestrator.gpu import cuda_probe; cuda_probe.look({UUIDS!r})"
    with subprocess.Popen([sys.executable, "-c", source], env=os.environ | {"PYTHONPATH": str(ROOT)}) as parent:
        probe = until_it_loads("libcuda.so.1", parent.pid)
        parent.kill()
    gone, _ = psutil.wait_procs([probe], timeout=10)
    assert gone == [probe]


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether a process ignores a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(mask, 16) >> (number - 1) & 1)
