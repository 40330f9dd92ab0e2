"""Another process uses a GPU in the middle of a run, as an NVML of our own reports it: its results do not count."""

import re
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from orchestrator.store.journal_records import End, Left, Start
from protocol.failure import Category
from tests.fakes import faults, gpu_runs
from tests.fakes.node import Node
from tests.fakes.nvml import FakeNvml, uuid

LOOKS_EVERY_S = 0.5
"""How often the telemetry process asks who uses a GPU."""
withdrawn = partial(gpu_runs.count_withdrawn, category=Category.CONTAMINATED)


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path, gpus=2)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with gpubench. It must live for as long as the test does."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        assert process.poll() is None, "somebody ended a process that is not ours"
        process.kill()


def begin(nvml: FakeNvml, folder: Path, *, gpus: int = 1, allow_busy: bool = False) -> Node:
    """Start a run of one cell on each GPU, and wait until all cells have begun."""
    nvml.set({"gpus": gpus})
    node = gpu_runs.start(nvml, folder, faults.model("busy", seconds=1.5), allow_busy=allow_busy)
    node.until(lambda: len(node.of(Start)) == gpus)
    return node


def comes(nvml: FakeNvml, stranger: subprocess.Popen[bytes], kind: str = "compute", *, gpus: int = 1) -> None:
    """Give the stranger a context on the first GPUs from now on."""
    nvml.set({f"gpu.{gpu}.{kind}": f"{stranger.pid} {3 * 2**30}" for gpu in range(gpus)})


def leaves(nvml: FakeNvml, gpu: int = 0) -> None:
    nvml.set({f"gpu.{gpu}.compute": None})


def named(stranger: subprocess.Popen[bytes]) -> str:
    """The stranger in failures and records."""
    return f"PID {stranger.pid} sleep, 3.0 GiB"


def test_a_contaminated_result_is_measured_again_when_the_gpu_is_free(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A GPU waits while the other process is there. A visit that is over by the end of a cell costs its result too.

    A stop ends the waiting, and `resume` goes on.
    """
    node = begin(nvml, tmp_path / "run", gpus=2)
    comes(nvml, stranger, gpus=2)
    time.sleep(1.6 * LOOKS_EVERY_S)
    assert node.of(End) == []
    leaves(nvml, gpu=1)
    node.until(lambda: withdrawn(node) == 2)
    node.until(lambda: sum(end.failure is None for end in node.of(End)) == 3)  # nothing may begin beside the stranger
    assert [one.device for one in node.of(Start)].count(uuid(0)) == 1
    node.process.terminate()
    assert [cell["status"] for cell in node.ended(4, timeout_s=20)["cells"]] == ["missing", "ok"]
    assert ("GPU 0 waits" in node.output, "GPU 1 waits" in node.output) == (True, False)
    leaves(nvml)
    report = gpu_runs.resume(nvml, tmp_path / "run").ended()
    assert [(cell["status"], cell["attempts"], cell["launches"]) for cell in report["cells"]] == [("ok", 2, 1)] * 2
    assert {failure["category"] for failure in report["failures"]} == {Category.CONTAMINATED}
    assert all(failure["message"].startswith(named(stranger)) for failure in report["failures"])


def test_a_cell_that_is_contaminated_twice_has_failed(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """It is named after that, and the run is not complete.

    A kill between a result and its withdrawal loses neither: the journal has the other process first.
    """
    node = begin(nvml, tmp_path / "run")
    comes(nvml, stranger)
    nvml.set({"gpu.0.memory_used_bytes": 3 * 2**30})  # the run waits for this memory, and judges the result after that
    node.until(lambda: len(node.of(End)) == 1)
    node.kill()
    assert (withdrawn(node), node.of(Left)) == (0, [])
    leaves(nvml)
    nvml.set({"gpu.0.memory_used_bytes": 0})
    again = gpu_runs.resume(nvml, tmp_path / "run")
    again.until(lambda: len(again.of(Start)) == 2)
    comes(nvml, stranger)
    again.until(lambda: withdrawn(again) == 2)
    leaves(nvml)
    report = again.ended(4)
    (cell,) = report["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("failed", 2, 0)
    assert cell["reason"].startswith(f"{Category.CONTAMINATED}: PID ")
    assert all(failure["message"].startswith(named(stranger)) for failure in report["failures"])


def test_without_telemetry_a_gpu_does_not_wait(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Nobody can tell then that the other process has left: a contaminated cell is measured again at once."""
    node = begin(nvml, tmp_path / "run")
    comes(nvml, stranger)
    node.until(lambda: withdrawn(node) == 1)
    (sampler,) = [child for child in node.children() if "orchestrator.gpu.telemetry.sampler" in child.cmdline()]
    sampler.kill()
    assert node.ended(4)["cells"][0]["attempts"] == 2  # nobody can tell either whether the GPU is healthy


def test_a_display_server_and_unknown_users_do_not_count(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A process that only draws leaves results as they are. Where NVML hides processes, one warning says so."""
    nvml.fail("nvmlDeviceGetComputeRunningProcesses", 4, gpu=1)
    node = begin(nvml, tmp_path / "run", gpus=2)
    comes(nvml, stranger, "graphics")
    assert [cell["attempts"] for cell in node.ended()["cells"]] == [1, 1]
    assert withdrawn(node) == 0
    assert len(re.findall("NVML .* GPU 1", node.output)) == 1


def test_with_allow_busy_results_are_marked(nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A result counts, and the journal names the other process."""
    node = begin(nvml, tmp_path / "run", allow_busy=True)
    comes(nvml, stranger)
    node.ended()
    (attempt,) = node.archive().attempts
    assert attempt.promised
    assert attempt.beside == named(stranger)
