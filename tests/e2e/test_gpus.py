"""Eight GPUs that are not there, NVML and CUDA of our own: everything around a launch, with workers that use no GPU."""

import time
from itertools import accumulate
from pathlib import Path

import pytest

from orchestrator.config.run_configuration import StoredRun
from orchestrator.store.journal_records import Left, Start
from protocol.cell import Mode
from tests.fakes import faults, gpu_runs
from tests.fakes.node import Node
from tests.fakes.nvml import FakeNvml


def prepare(nvml: FakeNvml, folder: Path, modes: tuple[Mode, ...] = (Mode.LOADED,)) -> StoredRun:
    """Write a run of two models on every GPU that the fake NVML shows."""
    return gpu_runs.prepare(nvml, folder, faults.model("busy", seconds=0.4), faults.model("other"), modes=modes)


def most_at_once(node: Node) -> int:
    """The largest number of launches that were under way at one moment."""
    moments = [pair for one in node.archive().attempts for pair in ((one.start.at_ns, 1), (one.end.at_ns, -1))]
    return max(accumulate(change for _, change in sorted(moments)))


def test_eight_gpus_at_once(tmp_path: Path) -> None:
    """Every GPU works at the same time, then each alone; it is described in full, with samples beside its results."""
    nvml, folder = FakeNvml(tmp_path, gpus=8), tmp_path / "run"
    stored = prepare(nvml, folder, (Mode.LOADED, Mode.SOLO))
    node = gpu_runs.resume(nvml, folder)
    report = node.ended()
    assert len({gpu["serial"] for gpu in report["gpu_info"]}) == len(stored.devices) == 8
    assert report["summary"]["cells"]["ok"] == len(stored.plan.cells)
    assert report["summary"]["average_power_draw_w"] is not None
    assert report["test_configuration"]["mode"] == "loaded,solo"
    assert all(node.paths.samples(device.uuid).stat().st_size > 0 for device in stored.devices)
    assert most_at_once(node) == 8
    modes = {cell.id: cell.mode for cell in stored.plan.cells}
    at_work: dict[int, Mode] = {}
    alone = []
    for record in node.records():
        if isinstance(record, Start):
            at_work[record.launch] = modes[record.cell]
            alone += [list(at_work.values())] if Mode.SOLO in at_work.values() else []
        elif isinstance(record, Left):
            del at_work[record.launch]
    assert alone == [[Mode.SOLO]] * list(modes.values()).count(Mode.SOLO)


@pytest.mark.slow
def test_a_gpu_whose_memory_stays_taken_waits_until_it_is_free(tmp_path: Path) -> None:
    """Memory that nobody gives back keeps the GPU from being used from 30 s on; the others go on; free, it is used."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    stored = prepare(nvml, folder)
    nvml.set({"gpu.0.memory_used_bytes": 80 * 2**30})  # nothing was in use when the devices were found
    node = gpu_runs.resume(nvml, folder)

    def left(gpu: int) -> int:
        gone = {record.launch for record in node.of(Left)}
        return sum(one.launch in gone for one in node.of(Start) if one.device == stored.devices[gpu].uuid)

    node.until(lambda: left(0) == 1, timeout_s=60)
    assert left(1) == 2
    time.sleep(1)  # nothing may begin on it
    assert len(node.of(Start)) == 3
    nvml.set({"gpu.0.memory_used_bytes": 0})
    report = node.ended(timeout_s=30)
    assert "GPU 0 waits" in node.output
    assert report["summary"]["cells"]["ok"] == len(stored.plan.cells)
    assert report["gpu_info"][0]["quarantined"] is None


def test_a_run_is_not_resumed_without_its_cuda_or_gpus(tmp_path: Path) -> None:
    """Exit code 2 with the cause, and nothing is written. Without NVML a run goes on, without readings and verdict."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    stored = prepare(nvml, folder)
    before = sorted(folder.rglob("*"))

    def refused(named: str, **cuda: int) -> None:
        node = gpu_runs.resume(nvml, folder, **cuda)
        assert node.wait() == 2, node.output
        assert named in node.output
        assert sorted(folder.rglob("*")) == before

    refused("803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ", init=803)
    nvml.set({"gpus": 0})  # as after the folder was carried to another machine
    refused(stored.devices[0].uuid)
    nvml.set({"gpus": 2})
    nvml.fail("nvmlInit", 999)  # a run goes on without NVML, never without CUDA
    refused(stored.devices[1].uuid[:12], gpus=1)
    node = gpu_runs.resume(nvml, folder)
    summary = node.ended(4)["summary"]
    assert "no GPU readings" in node.output
    assert summary["cells"]["ok"] == len(stored.plan.cells)
    assert summary["average_power_draw_w"] is None


def test_a_gpu_that_was_lost_before_a_resume_costs_its_own_cells(tmp_path: Path) -> None:
    """Off the bus, and then not listed: it is named and quarantined, with no PASS. `resume` measures the rest later."""
    nvml, folder = FakeNvml(tmp_path, gpus=3), tmp_path / "run"
    lost = prepare(nvml, folder).devices[2].uuid
    for lose in (nvml.vanish, nvml.remove):
        lose(2)
        node = gpu_runs.resume(nvml, folder, gpus=2)
        report = node.ended(3)
        status = {(cell["gpu_uuid"] == lost, cell["status"]) for cell in report["cells"]}
        assert status == {(False, "ok"), (True, "missing")}
        *others, quarantined = [gpu["quarantined"] for gpu in report["gpu_info"]]
        assert others == [None, None]
        assert all(cell["reason"].endswith(quarantined) for cell in report["cells"] if cell["gpu_uuid"] == lost)
        assert [gpu["verdict"] == "FAIL" for gpu in report["health"]["gpus"]] == [False, False, True]
        assert not any(record.device == lost for record in node.of(Start))
        nvml.set({"gpus": 3, "gpu.2.error.*": None})
    back = gpu_runs.resume(nvml, folder)
    back.wait()
    assert {cell["status"] for cell in back.report()["cells"]} == {"ok"}, back.output
    assert back.report()["gpu_info"][2]["quarantined"] is None
