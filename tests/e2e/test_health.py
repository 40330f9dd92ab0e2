"""Whole runs on an NVML of our own whose GPUs fail in the middle: results are kept, the verdict says what happened."""

from pathlib import Path

import pytest

from orchestrator.config.run_configuration import StoredRun
from orchestrator.gpu.health import records
from orchestrator.gpu.health.records import Vitals
from orchestrator.store.records import TelemetryEnded
from tests.fakes import faults, gpu_runs
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml


def prepare(nvml: FakeNvml, folder: Path, *required: str) -> StoredRun:
    """Write a run on every GPU that the fake NVML shows. required: signals without which there is no PASS."""
    return gpu_runs.prepare(nvml, folder, faults.model("busy", seconds=1.0), required_signals=required)


def looked_at(node: Node) -> bool:
    """Whether the telemetry process has looked at the GPUs once, and so listens too."""
    return any(isinstance(record, Vitals) for record in records.read(node.paths.health))


def test_an_xid_in_the_middle_fails_its_gpu(tmp_path: Path) -> None:
    """Exit code 3 with the GPU and the number; the results of all GPUs are in the report."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    stored = prepare(nvml, folder)
    node = gpu_runs.resume(nvml, folder)
    node.until(lambda: looked_at(node))
    nvml.xid(1, 74)
    assert node.wait() == 3, node.output
    report = node.report()
    assert [gpu["verdict"] == "FAIL" for gpu in report["health"]["gpus"]] == [False, True]
    assert report["health"]["gpus"][1]["gpu_uuid"] == stored.devices[1].uuid
    assert report["health"]["gpus"][1]["xids"][0]["xid"] == 74
    assert report["summary"]["cells"]["ok"] == len(stored.plan.cells)


def test_a_required_signal_that_cannot_be_read_is_no_pass(tmp_path: Path) -> None:
    """ECC counters of one GPU are refused: a run that does not require them ends with 0, one that does with 4."""
    nvml = FakeNvml(tmp_path, gpus=2)
    nvml.fail("nvmlDeviceGetTotalEccErrors", 4, gpu=1)
    refused = ("ecc_uncorrected", "ecc_corrected")
    codes, gpus = [], []
    for required in ((), ("xid", *refused)):
        folder = tmp_path / f"run{len(required)}"
        prepare(nvml, folder, *required)
        node = gpu_runs.resume(nvml, folder)
        codes.append(node.wait())
        gpus.append(node.report()["health"]["gpus"])
        readable, fewer = (gpu["applicable"] - gpu["readable"] for gpu in gpus[-1])
        assert readable == 1  # the generation of a link is known under load only, and there is none
        assert fewer == readable + len(refused)
        assert all(gpu["looks"] >= 2 for gpu in gpus[-1])
        assert leftovers(folder) == NOTHING
    assert codes == [0, 4]
    free, strict = gpus
    assert {gpu["verdict"] for gpu in free} <= {"PASS", "WARN"}
    assert [gpu["verdict"] == "UNKNOWN" for gpu in strict] == [False, True]
    assert strict[1]["lacking"] == [*refused]


@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["killed", "hangs in NVML"])
def test_telemetry_that_ends_is_no_pass(tmp_path: Path, hangs: bool) -> None:
    """The run ends with its results. That telemetry ended is in the journal, and health is UNKNOWN: exit code 4."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    stored = prepare(nvml, folder)
    if hangs:
        nvml.hang(0, "nvmlDeviceGetTotalEccErrors")
    node = gpu_runs.resume(nvml, folder)
    if not hangs:
        node.until(lambda: node.working("busy") and looked_at(node))
        next(child for child in node.children() if "orchestrator.gpu.telemetry.sampler" in child.cmdline()).kill()
    assert node.wait() == 4, node.output
    report = node.report()
    assert report["summary"]["cells"]["ok"] == len(stored.plan.cells)
    assert {gpu["verdict"] for gpu in report["health"]["gpus"]} == {"UNKNOWN"}
    assert all(gpu["note"] for gpu in report["health"]["gpus"])
    assert sum(isinstance(record, TelemetryEnded) for record in node.records()) == 1
    assert leftovers(folder) == NOTHING
