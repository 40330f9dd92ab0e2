"""A GPU that is slowed down while it measures, as an NVML of our own reports it: it rests and is measured again."""

import signal
from pathlib import Path

import pytest

from orchestrator.store.records import Start
from protocol.failure import Category
from tests.fakes import faults, gpu_runs
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml

HOT = {"gpu.0.reasons": "0x40", "gpu.0.temperature_c": 91}
COOL = {"gpu.0.reasons": "0x0", "gpu.0.temperature_c": 40}


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    """One GPU, which is hot."""
    fake = FakeNvml(tmp_path, gpus=1)
    fake.set(HOT)
    return fake


def begin(nvml: FakeNvml, folder: Path) -> Node:
    """Start a run of one cell."""
    gpu_runs.prepare(nvml, folder, faults.model("busy", seconds=0.5))
    return gpu_runs.resume(nvml, folder)


def withdrawn(node: Node) -> int:
    """How many results were withdrawn."""
    return gpu_runs.count_withdrawn(node, Category.THROTTLED)


def started(node: Node) -> int:
    """How many launches have begun."""
    return sum(isinstance(record, Start) for record in node.records())


def test_the_third_throttled_launch_counts(nvml: FakeNvml, tmp_path: Path) -> None:
    """Nothing is launched while the GPU is hot. A GPU that is hot three times has a result: that is a finding."""
    node = begin(nvml, tmp_path / "run")
    for times in (1, 2):
        node.until(lambda times=times: withdrawn(node) == times)
        assert started(node) == times
        nvml.set(COOL)
        node.until(lambda times=times: started(node) == times + 1)
        nvml.set(HOT)
    assert node.wait() == 0, node.output
    report = node.report()
    (cell,) = report["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("ok", 3, 1)
    assert [failure["category"] for failure in report["failures"]] == [Category.THROTTLED] * 2
    assert all("91 degrees C" in failure["message"] for failure in report["failures"])
    assert leftovers(tmp_path / "run") == NOTHING


def test_an_interrupted_rest_is_resumed(nvml: FakeNvml, tmp_path: Path) -> None:
    """Stopped while the GPU rests, the run ends at once, incomplete. The second launch, on a cool GPU, counts."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: withdrawn(node) == 1)
    node.kill(signal.SIGINT)
    assert node.wait(timeout_s=20) == 4, node.output
    assert node.report()["cells"][0]["status"] == "missing"
    nvml.set(COOL)
    again = gpu_runs.resume(nvml, tmp_path / "run")
    assert again.wait() == 0, again.output
    (cell,) = again.report()["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("ok", 2, 1)
