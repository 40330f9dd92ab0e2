"""A GPU that is slowed down while it measures, told by an NVML of our own: it rests, and it is measured again."""

import signal
from pathlib import Path

import pytest

from orchestrator.store.records import End, Start
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml

PREPARE = """
import signal
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
faults.prepare(Path({folder!r}), faults.model("busy", seconds=0.5), machines=found)
print("null")
"""
HOT = {"gpu.0.reasons": "0x40", "gpu.0.temperature_c": 91}
COOL = {"gpu.0.reasons": "0x0", "gpu.0.temperature_c": 40}


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    """One GPU, which is hot."""
    fake = FakeNvml(tmp_path, gpus=1)
    fake.set(HOT)
    return fake


def begin(nvml: FakeNvml, folder: Path) -> Node:
    """A run of one cell."""
    nvml.python(PREPARE.format(folder=str(folder)))
    return Node(folder, environment=nvml.environment | beside(nvml))


def withdrawn(node: Node) -> int:
    """How many results were taken back."""
    ends = [record for record in node.records() if isinstance(record, End) and record.failure is not None]
    return sum(end.failure is not None and end.failure.category is Category.THROTTLED for end in ends)


def started(node: Node) -> int:
    """How many launches were begun."""
    return sum(isinstance(record, Start) for record in node.records())


def test_a_slowed_launch_is_measured_again_when_the_gpu_is_cool(nvml: FakeNvml, tmp_path: Path) -> None:
    """Nothing is launched while it is hot; the second launch counts, the first is kept as a failure with its reason."""
    node = begin(nvml, tmp_path / "run")
    node.until(lambda: withdrawn(node) == 1)
    assert started(node) == 1
    nvml.set(COOL)
    assert node.wait() == 0, node.output
    report = node.report()
    (cell,) = report["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("ok", 2, 1)
    (failure,) = report["failures"]
    assert failure["category"] == "throttled"
    assert "hardware thermal slowdown, 91 degrees C" in failure["message"]
    assert "It rests, then it is measured again." in node.output
    assert leftovers(tmp_path / "run") == NOTHING


def test_the_third_slowed_launch_stands(nvml: FakeNvml, tmp_path: Path) -> None:
    """Started again at most twice: then the result is kept, for a GPU that cannot be cooled is a finding."""
    node = begin(nvml, tmp_path / "run")
    for times in (1, 2):
        node.until(lambda times=times: withdrawn(node) == times)
        nvml.set(COOL)
        node.until(lambda times=times: started(node) == times + 1)
        nvml.set(HOT)
    assert node.wait() == 0, node.output
    (cell,) = node.report()["cells"]
    assert (cell["status"], cell["attempts"], cell["launches"]) == ("ok", 3, 1)
    assert withdrawn(node) == 2


def test_an_interrupted_rest_is_gone_on_with(nvml: FakeNvml, tmp_path: Path) -> None:
    """Stopped while the GPU rests: the run ends at once, incomplete, and a resume measures what was taken back."""
    folder = tmp_path / "run"
    node = begin(nvml, folder)
    node.until(lambda: withdrawn(node) == 1)
    node.kill(signal.SIGINT)
    assert node.wait(timeout_s=20) == 4, node.output
    assert node.report()["cells"][0]["status"] == "missing"
    nvml.set(COOL)
    again = Node(folder, environment=nvml.environment | beside(nvml))
    assert again.wait() == 0, again.output
    assert RunPaths(folder).report("json").exists()
    assert again.report()["cells"][0]["attempts"] == 2
