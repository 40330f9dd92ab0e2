"""Real runs on GPUs that are not there, of which the driver reports errors in the middle."""

from pathlib import Path

import pytest

from orchestrator.store.records import Skipped, TakenOut
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml, uuid

PREPARE = """
from pathlib import Path
from msgspec.structs import replace
from orchestrator.gpu import devices
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
models = [faults.model(f"m{{number}}", seconds={seconds}) for number in range(3)]
faults.prepare(Path({folder!r}), *models, machines=found, deadlines=replace(faults.DEADLINES, measure=60))
print("null")
"""

NO_CONTEXT = """
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
fault = {{"do": "no context", "in": "build", "on": {on!r}, "after": 5}}
faults.prepare(Path({folder!r}), *[faults.model(f"m{{number}}", **fault) for number in range(2)], machines=found)
print("null")
"""


def begun(nvml: FakeNvml, folder: Path, seconds: float) -> Node:
    """A run on every GPU that the fake NVML shows, whose first cells are under way."""
    nvml.python(PREPARE.format(folder=str(folder), seconds=seconds))
    node = Node(folder, environment=nvml.environment | beside(nvml))
    node.until(lambda: node.working("m"))
    node.until(lambda: node.paths.health.exists() and node.paths.health.stat().st_size > 0)
    return node


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "seconds", "reason"),
    [
        ({"event.1": "1 79"}, 8, "Xid 79: reboot the machine"),
        ({"gpu.1.ecc_uncorrected": 2}, 24, "memory errors, uncorrected: 2 in this run"),
        ({"gpu.1.error.nvmlDeviceGetRemappedRows": 14}, 24, "its InfoROM is damaged (NVML error 14)"),
    ],
)
def test_a_grave_fault_takes_its_gpu_out_at_once(
    tmp_path: Path, fault: dict[str, object], seconds: int, reason: str
) -> None:
    """What runs there is ended by that name and not tried again; the other GPU measures everything; exit code 3."""
    nvml = FakeNvml(tmp_path)
    node = begun(nvml, tmp_path / "run", seconds=seconds)
    nvml.set(fault)
    assert node.wait(timeout_s=120) == 3, node.output
    (out,) = [one for one in node.records() if isinstance(one, TakenOut)]
    assert (out.device, out.reason) == (uuid(1), reason)
    failures = [one for one in node.report()["failures"] if one["gpu_id"] == 1]
    assert [(one["category"], one["message"]) for one in failures] == [("device hardware error", reason)]
    assert ("xids" in failures[0]["evidence"]) == ("event.1" in fault)
    measured = [one for one in node.archive().attempts if one.promised]
    assert sum(one.start.device == uuid(0) for one in measured) == 3
    assert leftovers(tmp_path / "run") == NOTHING


def test_an_xid_of_the_application_takes_nothing_out(tmp_path: Path) -> None:
    """It is said, and the run goes on with every GPU."""
    nvml = FakeNvml(tmp_path)
    node = begun(nvml, tmp_path / "run", seconds=3)
    nvml.xid(1, 13)
    node.wait(timeout_s=120)
    assert "GPU 1: Xid 13 (restart the application)" in node.output
    assert not any(isinstance(one, TakenOut) for one in node.records())
    assert node.report()["summary"]["cells"]["ok"] == 6


@pytest.mark.slow
def test_a_gpu_that_cannot_start_after_another_broke_is_not_blamed(tmp_path: Path) -> None:
    """Two models that cannot get a context then: no device but the broken one is taken out, no model is skipped."""
    nvml = FakeNvml(tmp_path, gpus=3)
    folder = tmp_path / "run"
    nvml.python(NO_CONTEXT.format(folder=str(folder), on=uuid(0)))
    node = Node(folder, environment=nvml.environment | beside(nvml))
    node.until(lambda: node.working("m"))
    node.until(lambda: node.paths.health.exists() and node.paths.health.stat().st_size > 0)
    nvml.xid(2, 79)
    assert node.wait(timeout_s=120) != 0, node.output
    assert [one.device for one in node.records() if isinstance(one, TakenOut)] == [uuid(2)]
    assert not any(isinstance(one, Skipped) for one in node.records())
    failures = [one for one in node.report()["failures"] if one["gpu_id"] == 0]
    assert {one["category"] for one in failures} == {"device unavailable"}
    assert all("(maybe a consequence: GPU 2 had failed before)" in one["message"] for one in failures)
    measured = [one.start.cell for one in node.archive().attempts if one.promised and one.start.device == uuid(1)]
    assert len(measured) == 2
