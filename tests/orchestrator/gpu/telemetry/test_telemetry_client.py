"""The telemetry process on a fake NVML: its files and messages."""

import os
import signal
import time
from pathlib import Path

import pytest

from orchestrator.gpu.telemetry.readings import readings_over
from orchestrator.gpu.telemetry.samples import read_samples
from orchestrator.system.process_end import Exit
from protocol.messages import Digest, Unavailable
from protocol.paths import RunPaths
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.telemetry import free, hear, sampling

GIB = 2**30


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Three GPUs, seen by the children of this process."""
    fake = FakeNvml(tmp_path, gpus=3)
    fake.install(monkeypatch)
    return fake


def test_every_gpu_has_its_file_and_digests_have_the_newest(fake: FakeNvml, tmp_path: Path) -> None:
    """Samples are on disk in order of time, under their own GPU; digests have the requested GPUs."""
    fake.set({"gpu.2.power_mw": 690_000})
    with sampling(tmp_path, 0, 2) as telemetry:
        first = hear(telemetry, Digest)
        fake.set({"gpu.2.power_mw": 500_000})
        second = hear(telemetry, Digest)
    assert set(first.samples) == {uuid(0), uuid(2)}
    assert (first.samples[uuid(2)].power_mw, second.samples[uuid(2)].power_mw) == (690_000, 500_000)
    kept = read_samples(RunPaths(tmp_path).samples(uuid(2)))
    times = [sample.at_ns for sample in kept]
    assert times == sorted(set(times))
    assert kept[0].power_mw == 690_000
    assert kept[-1].power_mw == 500_000
    assert second.samples[uuid(2)] in kept
    assert {sample.power_mw for sample in read_samples(RunPaths(tmp_path).samples(uuid(0)))} == {76_000}


TICKS = """
import json, os, socket, sys, time
from pathlib import Path
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.telemetry.sampler import Sampler, Task
from orchestrator.gpu.telemetry.samples import read_samples
from tests.fakes.nvml import uuid
folder, now_ms = Path(sys.argv[1]), 0
time.monotonic_ns = lambda: now_ms * 1_000_000
path = folder / "gpu.samples"
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
task = Task(
    parent_pid=os.getpid(), root="", interval_ms=50, files={uuid(0): str(path)}, health=str(folder / "health")
)
with ours, theirs, Nvml() as nvml:
    sampler = Sampler(nvml, theirs, task)
    for now_ms in (0, 10, 50, 130, 140, 150, 449, 450):
        sampler._sample_if_due()
    ours.shutdown(socket.SHUT_RDWR)
    sampler.run()
print(json.dumps([sample.at_ns // 1_000_000 for sample in read_samples(path)]))
"""


def test_ticks_keep_to_their_grid(fake: FakeNvml, tmp_path: Path) -> None:
    """A late tick (130, 449) is not repeated, and does not shift those after it."""
    assert fake.python(f"import sys; sys.argv[1:] = [{str(tmp_path)!r}]\n{TICKS}") == [0, 50, 130, 150, 449, 450]


def test_several_gpus_are_awaited_at_once(fake: FakeNvml, tmp_path: Path) -> None:
    """Each is answered when its own memory is back, or at its own timeout; sampling goes on meanwhile."""
    fake.set({"gpu.0.memory_used_bytes": 9 * GIB, "gpu.1.memory_used_bytes": 8 * GIB})
    with sampling(tmp_path, 0, 1, 2) as telemetry:
        telemetry.await_free(uuid(0), GIB, 60)
        telemetry.await_free(uuid(1), GIB, 0.05)
        telemetry.await_free(uuid(2), GIB, 60)
        already_free, timed_out = free(telemetry, 2), free(telemetry, 1)
        hear(telemetry, Digest)
        fake.set({"gpu.0.memory_used_bytes": GIB})
        came_back = free(telemetry, 0)
    assert (already_free.free, already_free.used_bytes) == (True, 0)
    assert (timed_out.free, timed_out.used_bytes) == (False, 8 * GIB)
    assert (came_back.free, came_back.used_bytes) == (True, GIB)
    assert came_back.at_ns > timed_out.at_ns > 0


def test_a_lost_gpu_does_not_end_the_others(fake: FakeNvml, tmp_path: Path) -> None:
    """Its readings become None, so that the gap is visible."""
    with sampling(tmp_path, 0, 1) as telemetry:
        hear(telemetry, Digest)
        fake.fail("*", 15, gpu=1)
        after = hear(telemetry, Digest, lambda message: message.samples[uuid(1)].power_mw is None)
    assert after.samples[uuid(0)].power_mw == 76_000


def test_samples_are_on_disk_when_a_gpu_is_reported_free(fake: FakeNvml, tmp_path: Path) -> None:
    """What was measured before the question can be judged by the answer. Without evidence no GPU is free."""
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, Digest)
        asked_ns = time.monotonic_ns()
        telemetry.await_free(uuid(0), GIB, 60)
        free(telemetry, 0)
        assert read_samples(RunPaths(tmp_path).samples(uuid(0)))[-1].at_ns > asked_ns
        fake.fail("nvmlDeviceGetMemoryInfo", 3, gpu=0)
        telemetry.await_free(uuid(0), GIB, 60)
        answer = free(telemetry, 0)
    assert (answer.free, answer.used_bytes) == (False, None)


def test_nvml_that_cannot_be_opened_is_reported(fake: FakeNvml, tmp_path: Path) -> None:
    """The reason arrives in words for the report, then the process ends."""
    fake.fail("nvmlInit", 18)
    with sampling(tmp_path, 0) as telemetry:
        said = hear(telemetry, Unavailable)
        assert "reboot" in said.reason.lower()
        with pytest.raises(EOFError):
            hear(telemetry, Digest)
        assert telemetry.stop() == Exit(code=0, signal=None)


def test_write_error_costs_the_samples_of_one_gpu(fake: FakeNvml, tmp_path: Path) -> None:
    """It is reported once, and digests continue."""
    RunPaths(tmp_path).samples(uuid(0)).mkdir(parents=True)
    with sampling(tmp_path, 0, 1) as telemetry:
        said = hear(telemetry, Unavailable)
        hear(telemetry, Digest)
        hear(telemetry, Digest)
    assert uuid(0) in said.reason
    assert read_samples(RunPaths(tmp_path).samples(uuid(1)))


def test_sigterm_writes_what_was_read(fake: FakeNvml, tmp_path: Path) -> None:
    """Terminated between two writes, it keeps every sample and leaves with exit code 0."""
    fake.set({"gpu.0.memory_used_bytes": 2 * GIB})
    with sampling(tmp_path, 0, interval_ms=10) as telemetry:
        hear(telemetry, Digest)
        path = RunPaths(tmp_path).samples(uuid(0))
        before = len(read_samples(path))
        telemetry.await_free(uuid(0), GIB, 0.1)
        free(telemetry, 0)  # several ticks later, before the next batch
        os.kill(telemetry.pid, signal.SIGTERM)
        with pytest.raises(EOFError):
            hear(telemetry, Digest)
        assert telemetry.stop() == Exit(code=0, signal=None)
        assert len(read_samples(path)) > before


def test_power_under_load_is_what_the_energy_counter_says(fake: FakeNvml, tmp_path: Path) -> None:
    """A GPU that takes 300 W while the board's mean still says 76 W. The counter moves ten times a second."""
    fake.set({"gpu.0.load_mw": 300_000})
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, Digest)
        begin_ns = time.monotonic_ns()
        while time.monotonic_ns() < begin_ns + 2 * 10**9:
            hear(telemetry, Digest)
        load = (begin_ns, time.monotonic_ns())
        telemetry.await_free(uuid(0), GIB, 60)
        free(telemetry, 0)
    readings = readings_over(read_samples(RunPaths(tmp_path).samples(uuid(0))), [load], load)
    assert readings.power_draw_w == pytest.approx(300, rel=0.06)
    assert readings.energy_j == pytest.approx(300 * (load[1] - load[0]) / 1e9, rel=0.06)
