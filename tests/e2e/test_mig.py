"""Whole runs on slices of a GPU that is not there: NVML and CUDA of our own, workers that use no GPU."""

import re
from pathlib import Path

import pytest

from orchestrator.analysis import evidence
from orchestrator.gpu.telemetry.readings import SHARED
from tests.e2e.test_gpus import most_at_once
from tests.fakes import faults, gpu_runs
from tests.fakes.nvml import FakeNvml, uuid

BUSY = faults.model("busy", seconds=1.0)


def test_two_slices_and_a_whole_gpu(tmp_path: Path) -> None:
    """They work at once; slices share the readings of their GPU, not its energy, and are judged by nobody."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    slices = nvml.cut(0, "3g.71gb", "3g.71gb")
    nvml.set({"gpu.0.power_mw": 333_000, "gpu.0.mig.1.memory_used_bytes": 2**30})
    gpu_runs.prepare(nvml, folder, BUSY, required_signals=("ecc_uncorrected",))
    nvml.set({"gpu.0.ecc_uncorrected": None})  # of a slice's GPU, from which no verdict comes
    node = gpu_runs.resume(nvml, folder, slices=slices)
    report, text = node.ended(), node.paths.report("txt").read_text()
    assert most_at_once(node) == 3
    assert [(one["gpu_uuid"], one["slice_of"], one["shared_gpu"]) for one in report["gpu_info"]] == [
        *((one, uuid(0), True) for one in slices),
        (uuid(1), None, False),
    ]
    assert [one["verdict"] for one in report["health"]["gpus"]][:2] == ["NOT APPLICABLE", "NOT APPLICABLE"]
    assert report["health"]["gpus"][2]["verdict"] in {"PASS", "WARN"}
    assert report["gpu_info"][0]["average_power_draw_w"] == pytest.approx(333.0)
    assert report["gpu_info"][0]["gpu_memory_total_mb"] == pytest.approx(71e9 / 2**20)
    assert "GPU 0:0, GPU 0:1, identical:" in text
    assert "GPU 0:1: NOT APPLICABLE" in text
    launches = evidence.gather(node.archive()).launches
    readings = {one.start.device: launches[one.start.launch].readings for one in node.archive().attempts}
    for one in slices:
        assert readings[one].note.endswith(SHARED)
        assert readings[one].temperature_c is not None
        assert readings[one].energy_j is None


def test_a_gpu_that_is_lost_takes_its_slices_along(tmp_path: Path) -> None:
    """Each slice is taken out with the cause, the other GPU goes on. Slices that are gone at the start are named."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    slices = nvml.cut(0, "3g.71gb", "3g.71gb")
    gpu_runs.prepare(nvml, folder, faults.model("busy", seconds=2.0))
    for gone, shown in ((None, slices), (slices[1], slices[:1])):
        nvml.set({"gpu.0.mig.1.uuid": gone})
        node = gpu_runs.resume(nvml, folder, slices=shown)
        assert node.wait() == 2, node.output
        assert re.search(rf"GPU 0:1 [^(]*\({slices[1]}\)", node.output)
    node = gpu_runs.resume(nvml, folder, slices=slices)
    node.until(lambda: node.looked_at(1))
    nvml.xid(0, 79)
    quarantined = {one["gpu_uuid"]: one["quarantined"] for one in node.ended(3)["gpu_info"]}
    assert all("Xid 79" in quarantined[one] for one in slices)
    assert quarantined[uuid(1)] is None


def test_slices_whose_gpu_was_lost_before_a_resume_cost_their_own_cells(tmp_path: Path) -> None:
    """They are gone with it, and nobody has cut it anew: the other GPU goes on."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    slices = nvml.cut(1, "3g.71gb", "3g.71gb")
    gpu_runs.prepare(nvml, folder, BUSY)
    nvml.remove(1)
    report = gpu_runs.resume(nvml, folder, gpus=1).ended(4)
    assert {one["gpu_uuid"] for one in report["gpu_info"] if one["quarantined"]} == {*slices}
    status = {cell["gpu_uuid"]: cell["status"] for cell in report["cells"]}
    assert status == {uuid(0): "ok", **dict.fromkeys(slices, "missing")}
