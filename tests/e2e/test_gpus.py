"""Eight GPUs that are not there, NVML and CUDA of our own: everything around a launch, with workers that use no GPU."""

import time
from pathlib import Path

import pytest

from orchestrator.config.run_configuration import StoredRun
from orchestrator.store.records import Left, Start
from protocol.cell import Mode
from tests.fakes import faults, gpu_runs
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml


def prepare(nvml: FakeNvml, folder: Path, modes: tuple[Mode, ...] = (Mode.LOADED,)) -> StoredRun:
    """Write a run of two models on every GPU that the fake NVML shows."""
    return gpu_runs.prepare(nvml, folder, faults.model("busy", seconds=0.4), faults.model("other"), modes=modes)


def test_eight_gpus_at_once(tmp_path: Path) -> None:
    """Every GPU of the node works at the same time, is described in full, and has its samples beside its results."""
    nvml, folder = FakeNvml(tmp_path, gpus=8), tmp_path / "run"
    stored = prepare(nvml, folder)
    node = gpu_runs.resume(nvml, folder)
    assert node.wait() == 0, node.output
    report = node.report()
    assert len({gpu["serial"] for gpu in report["gpu_info"]}) == len(stored.devices) == 8
    assert report["summary"]["cells"]["ok"] == len(stored.plan.cells)
    assert report["summary"]["average_power_draw_w"] is not None
    assert all(node.paths.samples(device.uuid).stat().st_size > 0 for device in stored.devices)
    assert most_at_once(node) == 8
    assert leftovers(folder) == NOTHING


def test_both_modes_in_one_run(tmp_path: Path) -> None:
    """All GPUs work together in their loaded launches, and then each alone, and the report has what that costs."""
    nvml, folder = FakeNvml(tmp_path, gpus=3), tmp_path / "run"
    stored = prepare(nvml, folder, (Mode.LOADED, Mode.SOLO))
    node = gpu_runs.resume(nvml, folder)
    assert node.wait() == 0, node.output
    modes = {cell.id: cell.mode for cell in stored.plan.cells}
    at_work: dict[int, Mode] = {}
    seen: list[list[Mode]] = []
    for record in node.records():
        if isinstance(record, Start):
            at_work[record.launch] = modes[record.cell]
            seen.append(list(at_work.values()))
        elif isinstance(record, Left):
            del at_work[record.launch]
    assert [Mode.LOADED] * 3 in seen
    solo = [mode for mode in modes.values() if mode is Mode.SOLO]
    assert [one for one in seen if Mode.SOLO in one] == [[mode] for mode in solo]
    assert node.report()["test_configuration"]["mode"] == "loaded,solo"


@pytest.mark.slow
def test_a_gpu_whose_memory_stays_taken_waits_until_it_is_free(tmp_path: Path) -> None:
    """Memory that nobody gives back keeps the GPU from being used from 30 s on; the others go on; free, it is used."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    stored = prepare(nvml, folder)
    nvml.set({"gpu.0.memory_used_bytes": 80 * 2**30})  # nothing was in use when the devices were found
    node = gpu_runs.resume(nvml, folder)

    def left(gpu: int) -> int:
        gone = {record.launch for record in node.records() if isinstance(record, Left)}
        mine = [one for one in node.records() if isinstance(one, Start) and one.device == stored.devices[gpu].uuid]
        return len([one for one in mine if one.launch in gone])

    node.until(lambda: left(0) == 1, timeout_s=60)
    assert left(1) == 2
    time.sleep(1)  # nothing may begin on it
    assert sum(isinstance(record, Start) for record in node.records()) == 3
    nvml.set({"gpu.0.memory_used_bytes": 0})
    assert node.wait(timeout_s=30) == 0, node.output
    assert "GPU 0 waits: " in node.output
    assert node.report()["summary"]["cells"]["ok"] == len(stored.plan.cells)
    assert node.report()["gpu_info"][0]["taken_out"] is None


def test_without_nvml_the_run_goes_on(tmp_path: Path) -> None:
    """NVML that breaks after the devices were found costs the readings and the verdict, and the report says why."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    stored = prepare(nvml, folder)
    nvml.fail("nvmlInit", 999)
    node = gpu_runs.resume(nvml, folder)
    assert node.wait() == 4, node.output
    assert "no GPU readings" in node.output
    assert node.report()["summary"]["cells"]["ok"] == len(stored.plan.cells)
    assert node.report()["summary"]["average_power_draw_w"] is None


def test_a_run_is_not_resumed_without_its_cuda_or_gpus(tmp_path: Path) -> None:
    """Exit code 2 with the cause, and nothing is written, where every cell would fail. Repaired, it can be resumed."""
    nvml, folder = FakeNvml(tmp_path, gpus=2), tmp_path / "run"
    stored = prepare(nvml, folder)
    before = sorted(folder.rglob("*"))

    def refused(named: str, **cuda: int) -> None:
        node = gpu_runs.resume(nvml, folder, **cuda)
        assert node.wait() == 2, node.output
        assert named in node.output
        assert sorted(folder.rglob("*")) == before

    refused("803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ", init=803)
    nvml.set({"error.nvmlInit": 999})  # a run goes on without NVML, never without CUDA
    refused(stored.devices[1].uuid[:12], gpus=1)
    nvml.set({"error.nvmlInit": None, "gpus": 0})  # as after the folder was carried to another machine
    refused(stored.devices[0].uuid)
    nvml.set({"gpus": 2})
    node = gpu_runs.resume(nvml, folder)
    assert node.wait() == 0, node.output


@pytest.mark.parametrize("lose", [FakeNvml.vanish, FakeNvml.remove], ids=["off the bus", "not listed after a restart"])
def test_a_gpu_that_was_lost_before_a_resume_costs_its_own_cells(tmp_path: Path, lose: object) -> None:
    """It is named and taken out, with no PASS; the others are measured. `resume` measures the rest once it is back."""
    nvml, folder = FakeNvml(tmp_path, gpus=3), tmp_path / "run"
    lost = prepare(nvml, folder).devices[2].uuid
    assert callable(lose)
    lose(nvml, 2)
    node = gpu_runs.resume(nvml, folder, gpus=2)
    assert node.wait() == 3, node.output
    report = node.report()
    status = {(cell["gpu_uuid"] == lost, cell["status"]) for cell in report["cells"]}
    assert status == {(False, "ok"), (True, "missing")}
    taken_out = [gpu["taken_out"] for gpu in report["gpu_info"]]
    assert taken_out[:2] == [None, None]
    assert all(cell["reason"].endswith(taken_out[2]) for cell in report["cells"] if cell["gpu_uuid"] == lost)
    assert [gpu["verdict"] == "FAIL" for gpu in report["health"]["gpus"]] == [False, False, True]
    assert not any(isinstance(record, Start) and record.device == lost for record in node.records())
    nvml.set({"gpus": 3, "gpu.2.error.*": None})
    back = gpu_runs.resume(nvml, folder)
    back.wait()
    assert {cell["status"] for cell in back.report()["cells"]} == {"ok"}, back.output
    assert back.report()["gpu_info"][2]["taken_out"] is None


def most_at_once(node: Node) -> int:
    """The largest number of launches that were under way at one moment."""
    moments = []
    for one in node.archive().attempts:
        assert one.end is not None
        moments += [(one.start.at_ns, 1), (one.end.at_ns, -1)]
    running = most = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most
