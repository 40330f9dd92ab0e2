"""Somebody else comes to a GPU in the middle of a run, told by an NVML of our own: its results do not count."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store.records import End, Left, Start
from protocol.failure import Category
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml

PREPARE = """
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
faults.prepare(Path({folder!r}), faults.model("busy", seconds=1.5), machines=found, allow_busy={allow_busy})
print("null")
"""


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    """One GPU that nobody uses."""
    return FakeNvml(tmp_path, gpus=1)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with gpubench. It must live for as long as the test does."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        assert process.poll() is None, "somebody ended a process that is not ours"
        process.kill()


def begin(nvml: FakeNvml, folder: Path, *, allow_busy: bool = False) -> Node:
    """A run of one cell."""
    nvml.python(PREPARE.format(folder=str(folder), allow_busy=allow_busy))
    return Node(folder, environment=nvml.environment | beside(nvml))


def comes(nvml: FakeNvml, stranger: subprocess.Popen[bytes], kind: str = "compute") -> None:
    """The stranger has a context on the GPU from now on."""
    nvml.set({f"gpu.0.{kind}": f"{stranger.pid} {3 * 2**30}"})


def leaves(nvml: FakeNvml) -> None:
    """Nobody has."""
    nvml.set({"gpu.0.compute": None})


def count(node: Node, kind: type) -> int:
    """How many such records the journal holds."""
    return sum(isinstance(record, kind) for record in node.records())


def withdrawn(node: Node) -> int:
    """How many results were taken back."""
    failures = [record.failure for record in node.records() if isinstance(record, End) and record.failure is not None]
    return sum(failure.category is Category.CONTAMINATED for failure in failures)


def test_what_was_measured_beside_somebody_is_measured_again(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """It is kept aside, the GPU waits until the other has left, and only what is measured then counts."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: count(node, Start) == 1)
    comes(nvml, stranger)
    node.until(lambda: withdrawn(node) == 1)
    time.sleep(1.5)  # while the stranger is there, nothing may begin
    assert count(node, Start) == 1
    leaves(nvml)
    assert node.wait() == 0, node.output
    report = node.report()
    (cell,) = report["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("ok", 2, 1)
    (failure,) = report["failures"]
    assert failure["category"] == "contaminated by another process"
    assert failure["message"] == f"PID {stranger.pid} sleep, 3.0 GiB computed on the GPU too"
    assert f"GPU 0 waits: PID {stranger.pid} sleep, 3.0 GiB computes on it." in node.output
    assert leftovers(tmp_path / "run") == NOTHING


def test_who_has_left_before_the_end_was_there_all_the_same(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A visit in the middle of a cell costs its result; nobody is waited for."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: count(node, Start) == 1)
    comes(nvml, stranger)
    time.sleep(0.8)  # the GPU is looked at twice a second
    assert count(node, End) == 0
    leaves(nvml)
    assert node.wait() == 0, node.output
    assert withdrawn(node) == 1
    assert "waits" not in node.output
    assert node.report()["cells"][0]["attempts"] == 2


def test_who_comes_each_time_leaves_a_cell_without_a_result(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """After the second time the cell has failed by that name, and the run is not complete."""
    node = begin(nvml, tmp_path / "run")
    for times in (1, 2):
        node.until(lambda times=times: count(node, Start) == times)
        comes(nvml, stranger)
        node.until(lambda times=times: withdrawn(node) == times)
        leaves(nvml)
    assert node.wait() == 4, node.output
    (cell,) = node.report()["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("failed", 2, 0)
    assert cell["reason"].startswith("contaminated by another process: PID ")


def test_a_display_server_does_not_count(nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A process that only draws leaves results as they are."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: count(node, Start) == 1)
    comes(nvml, stranger, "graphics")
    assert node.wait() == 0, node.output
    assert node.report()["cells"][0]["attempts"] == 1
    assert withdrawn(node) == 0


def test_beside_others_on_request_results_are_marked(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """With --allow-busy a result counts, and the journal says beside whom it was measured."""
    node = begin(nvml, tmp_path / "run", allow_busy=True)
    node.until(lambda: count(node, Start) == 1)
    comes(nvml, stranger)
    assert node.wait() == 0, node.output
    (attempt,) = node.archive().attempts
    assert attempt.promised
    assert attempt.beside == f"PID {stranger.pid} sleep, 3.0 GiB"


def test_a_gpu_whose_users_are_not_told_is_measured_on_and_that_is_said(nvml: FakeNvml, tmp_path: Path) -> None:
    """Without permission to see processes nothing is blocked; a warning says once that strangers are not seen."""
    nvml.fail("nvmlDeviceGetComputeRunningProcesses", 4, gpu=0)
    node = begin(nvml, tmp_path / "run")
    assert node.wait() == 0, node.output
    assert node.output.count("NVML does not tell who uses GPU 0") == 1


def test_a_stop_ends_the_waiting(nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Whoever stops the run does not wait for a stranger; `resume` measures what is missing."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: count(node, Start) == 1)
    comes(nvml, stranger)
    node.until(lambda: withdrawn(node) == 1 and count(node, Left) == 1)
    node.process.terminate()
    assert node.wait(timeout_s=20) == 4, node.output
    assert node.report()["cells"][0]["status"] == "missing"
    leaves(nvml)
    again = Node(tmp_path / "run", environment=nvml.environment | beside(nvml))
    assert again.wait() == 0, again.output


def test_what_was_measured_beside_somebody_is_taken_back_by_resume_too(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A kill between a result and its withdrawal loses neither: the journal holds who was seen, before the result."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: count(node, Start) == 1)
    comes(nvml, stranger)
    nvml.set({"gpu.0.memory_used_bytes": 3 * 2**30})  # for this the GPU is waited for, and the result not judged yet
    node.until(lambda: count(node, End) == 1)
    node.kill()
    node.wait()
    assert (withdrawn(node), count(node, Left)) == (0, 0)
    leaves(nvml)
    nvml.set({"gpu.0.memory_used_bytes": 0})
    again = Node(tmp_path / "run", environment=nvml.environment | beside(nvml))
    assert again.wait() == 0, again.output
    (cell,) = again.report()["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("ok", 2, 1)
    (failure,) = again.report()["failures"]
    assert failure["message"] == f"PID {stranger.pid} sleep, 3.0 GiB computed on the GPU too"


def test_a_gpu_does_not_wait_for_somebody_who_is_not_seen_any_more(
    nvml: FakeNvml, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Without telemetry nobody can say that the other has left: what began beside him is measured again at once."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: count(node, Start) == 1)
    comes(nvml, stranger)
    node.until(lambda: withdrawn(node) == 1)
    (sampler,) = [child for child in node.children() if "orchestrator.gpu.telemetry.sampler" in child.cmdline()]
    sampler.kill()
    assert node.wait(timeout_s=20) == 4, node.output  # nor whether the GPU is sound
    assert "none waits until others have left" in node.output
    assert node.report()["cells"][0]["attempts"] == 2
