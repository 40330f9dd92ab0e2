"""Real runs on GPUs that are not there, of which the driver reports errors in the middle."""

from pathlib import Path

import pytest

from orchestrator.store.journal_records import Quarantine, Skipped
from protocol.failure import Category
from tests.fakes import faults, gpu_runs
from tests.fakes.cuda import beside
from tests.fakes.injection import inject
from tests.fakes.node import Node
from tests.fakes.nvml import FakeNvml, uuid

pytestmark = pytest.mark.slow

LASTS_S = 4.0
LOOK_EVERY_SECOND = """
import sys
if "orchestrator.gpu.telemetry.sampler" in sys.orig_argv:
    from orchestrator.gpu.health import records
    records.LOOK_NS = 10**9
"""
"""The health of a GPU is looked at every 10 s otherwise."""
GRAVE = {
    1: ({"event.1": "1 79"}, "Xid 79 "),
    2: ({"gpu.2.ecc_uncorrected": 2}, "errors: 2 "),
    3: ({"gpu.3.error.nvmlDeviceGetRemappedRows": 14}, "(NVML error 14)"),
}
"""By the GPU that has it: what NVML reports from then on, and what names it."""


def begin(nvml: FakeNvml, folder: Path, gpus: int, environment: dict[str, str]) -> Node:
    """Start a prepared run, and wait until its first cells have begun and all GPUs were looked at."""
    node = Node(folder, environment=nvml.environment | beside(nvml) | environment)
    node.until(lambda: node.working("m"))
    node.until(lambda: node.looked_at(gpus))
    return node


def test_a_grave_fault_takes_its_gpu_out_at_once(tmp_path: Path) -> None:
    """The launch on a faulty GPU fails and is not retried. The healthy GPU measures every cell; the exit code is 3."""
    nvml, folder = FakeNvml(tmp_path, gpus=4), tmp_path / "run"
    models = [faults.model(f"m{number}", seconds=LASTS_S) for number in range(3)]
    gpu_runs.prepare(nvml, folder, *models)
    node = begin(nvml, folder, 4, inject(tmp_path / "injected", LOOK_EVERY_SECOND))
    for fault, _ in GRAVE.values():
        nvml.set(fault)
    report = node.ended(3, timeout_s=120)
    quarantined = {one.device: one.reason for one in node.of(Quarantine)}
    assert quarantined.keys() == {uuid(gpu) for gpu in GRAVE}
    failures = {one["gpu_id"]: one for one in report["failures"]}
    assert len(failures) == len(report["failures"]) == len(GRAVE)
    for gpu, (_, named) in GRAVE.items():
        assert named in quarantined[uuid(gpu)]
        assert failures[gpu]["category"] == Category.DEVICE_HARDWARE
        assert failures[gpu]["message"] == quarantined[uuid(gpu)]
        assert ("xids" in failures[gpu]["evidence"]) == (gpu == 1)
    measured = [one.start.device for one in node.archive().attempts if one.promised]
    assert measured.count(uuid(0)) == len(models)


def test_a_gpu_that_cannot_start_after_another_broke_is_not_blamed(tmp_path: Path) -> None:
    """Two models that cannot get a context then: no device but the broken one is taken out, no model is skipped."""
    nvml, folder = FakeNvml(tmp_path, gpus=3), tmp_path / "run"
    fault = {"do": "no context", "in": "build", "on": uuid(0), "after": 5}
    models = [faults.model(f"m{number}", **fault) for number in range(2)]
    gpu_runs.prepare(nvml, folder, *models)
    node = begin(nvml, folder, 3, {})
    nvml.xid(2, 79)
    assert node.wait(timeout_s=120) != 0, node.output
    assert [one.device for one in node.of(Quarantine)] == [uuid(2)]
    assert node.of(Skipped) == []
    failures = [one for one in node.report()["failures"] if one["gpu_id"] == 0]
    assert {one["category"] for one in failures} == {Category.DEVICE_UNAVAILABLE}
    assert all("a consequence: GPU 2 " in one["message"] for one in failures)
    measured = [one.start.device for one in node.archive().attempts if one.promised]
    assert measured.count(uuid(1)) == len(models)
