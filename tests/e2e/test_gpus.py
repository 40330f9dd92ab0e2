"""Eight GPUs that are not there, NVML and CUDA of our own: everything around a launch, with workers that use no GPU."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.config.run_configuration import StoredRun
from orchestrator.store.records import Left, Start
from protocol.cell import Mode
from protocol.paths import RunPaths
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml, uuid

PREPARE = """
from pathlib import Path
from orchestrator.gpu import devices
from protocol.cell import Mode, Scalar
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
faults.prepare(Path({folder!r}), faults.model("busy", seconds=0.4), faults.model("other"), machines=found,
               modes=tuple(map(Mode, {modes!r})))
print("null")
"""


def prepare(nvml: FakeNvml, folder: Path, modes: tuple[Mode, ...] = (Mode.LOADED,)) -> StoredRun:
    """A run on every GPU that the fake NVML shows."""
    from orchestrator.store import run_files

    nvml.python(PREPARE.format(folder=str(folder), modes=[*map(str, modes)]))
    return run_files.load(RunPaths(folder))


def test_eight_gpus_at_once(tmp_path: Path) -> None:
    """Every GPU of the node works at the same time, is described in full, and has its samples beside its results."""
    nvml = FakeNvml(tmp_path, gpus=8)
    folder = tmp_path / "run"
    stored = prepare(nvml, folder)
    node = Node(folder, environment=nvml.environment | beside(nvml))
    assert node.wait() == 0, node.output
    report = node.report()
    assert len({gpu["serial"] for gpu in report["gpu_info"]}) == 8
    assert report["summary"]["cells"]["ok"] == 16
    assert report["summary"]["average_power_draw_w"] is not None
    for device in stored.devices:
        assert node.paths.samples(device.uuid).stat().st_size > 0
    assert most_at_once(node) == 8
    assert leftovers(folder) == NOTHING


def test_solo_is_one_gpu_at_a_time(tmp_path: Path) -> None:
    """With --solo no other GPU works while one is measured."""
    nvml = FakeNvml(tmp_path, gpus=3)
    folder = tmp_path / "run"
    prepare(nvml, folder, (Mode.SOLO,))
    node = Node(folder, environment=nvml.environment | beside(nvml))
    assert node.wait() == 0, node.output
    assert most_at_once(node) == 1


def test_both_modes_in_one_run(tmp_path: Path) -> None:
    """All GPUs work together in their loaded launches, and then each alone, and the report has what that costs."""
    nvml = FakeNvml(tmp_path, gpus=3)
    folder = tmp_path / "run"
    stored = prepare(nvml, folder, (Mode.LOADED, Mode.SOLO))
    node = Node(folder, environment=nvml.environment | beside(nvml))
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
    assert [one for one in seen if Mode.SOLO in one] == [[Mode.SOLO]] * 6
    assert node.report()["test_configuration"]["mode"] == "loaded,solo"


@pytest.mark.slow
def test_a_gpu_whose_memory_stays_taken_waits_until_it_is_free(tmp_path: Path) -> None:
    """Memory that nobody gives back keeps the GPU from being used from 30 s on; the others go on; free, it is used."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    stored = prepare(nvml, folder)
    nvml.set({"gpu.0.memory_used_bytes": 80 * 2**30})  # nothing was in use when the devices were found
    node = Node(folder, environment=nvml.environment | beside(nvml))

    def left(gpu: int) -> int:
        gone = {record.launch for record in node.records() if isinstance(record, Left)}
        mine = [one for one in node.records() if isinstance(one, Start) and one.device == stored.devices[gpu].uuid]
        return len([one for one in mine if one.launch in gone])

    node.until(lambda: left(0) == 1, timeout_s=60)
    assert left(1) == 2
    time.sleep(3)  # nothing may begin on it
    assert sum(isinstance(record, Start) for record in node.records()) == 3
    nvml.set({"gpu.0.memory_used_bytes": 0})
    assert node.wait(timeout_s=30) == 0, node.output
    assert "GPU 0 waits: its memory was not given back within 30 s (80.0 GiB in use). After 600 s" in node.output
    assert node.report()["summary"]["cells"]["ok"] == 4
    assert node.report()["gpu_info"][0]["taken_out"] is None


def test_without_nvml_the_run_goes_on(tmp_path: Path) -> None:
    """NVML that breaks after the devices were found costs the readings and the verdict, and the report says why."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    prepare(nvml, folder)
    nvml.fail("nvmlInit", 999)
    node = Node(folder, environment=nvml.environment | beside(nvml))
    assert node.wait() == 4, node.output
    assert "no GPU readings" in node.output
    assert node.report()["summary"]["cells"]["ok"] == 4
    assert node.report()["summary"]["average_power_draw_w"] is None


def test_a_run_is_not_resumed_on_a_broken_cuda(tmp_path: Path) -> None:
    """Exit code 2 with the cause, where every cell would fail by itself; nothing is written, and it can be resumed."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    prepare(nvml, folder)
    before = sorted(folder.rglob("*"))
    broken = Node(folder, environment=nvml.environment | beside(nvml, init=803))
    assert broken.wait() == 2, broken.output
    assert "cuInit says 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, " in broken.output
    assert "reboot. Nothing was started." in broken.output
    assert sorted(folder.rglob("*")) == before
    rebooted = Node(folder, environment=nvml.environment | beside(nvml))
    assert rebooted.wait() == 0, rebooted.output


def test_a_broken_cuda_is_found_without_nvml_too(tmp_path: Path) -> None:
    """A run goes on without NVML, never without CUDA."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    prepare(nvml, folder)
    nvml.fail("nvmlInit", 999)
    node = Node(folder, environment=nvml.environment | beside(nvml, gpus=1))
    assert node.wait() == 2, node.output
    assert "it shows 1 of 2, and GPU 1 (" in node.output


def off_the_bus(nvml: FakeNvml) -> None:
    """NVML still counts the GPU, and every question about it is refused."""
    nvml.vanish(2)


def not_listed(nvml: FakeNvml) -> None:
    """After a restart the driver does not find it at all."""
    nvml.remove(2)


@pytest.mark.parametrize("lose", [off_the_bus, not_listed])
def test_a_gpu_that_was_lost_before_a_resume_costs_its_own_cells(
    tmp_path: Path, lose: Callable[[FakeNvml], None]
) -> None:
    """As one that is lost in the middle: named, taken out, no PASS for it; the others are measured. `resume` tries it
    again, and measures the rest once it is back.
    """
    nvml = FakeNvml(tmp_path, gpus=3)
    folder = tmp_path / "run"
    stored = prepare(nvml, folder)
    lost = stored.devices[2].uuid
    lose(nvml)
    node = Node(folder, environment=nvml.environment | beside(nvml, gpus=2))
    assert node.wait() == 3, node.output
    assert "GPU 2 is taken out of this run: it is not in this machine any more" in node.output
    report = node.report()
    status = {(cell["gpu_uuid"] == lost, cell["status"]) for cell in report["cells"]}
    assert status == {(False, "ok"), (True, "missing")}
    reasons = {cell["reason"] for cell in report["cells"] if cell["gpu_uuid"] == lost}
    assert reasons == {"the device was taken out of this run: it is not in this machine any more"}
    assert [gpu["verdict"] == "FAIL" for gpu in report["health"]["gpus"]] == [False, False, True]
    assert not any(isinstance(record, Start) and record.device == lost for record in node.records())
    nvml.set({"gpus": 3, "gpu.2.error.*": None})
    back = Node(folder, environment=nvml.environment | beside(nvml))
    back.wait()
    assert {cell["status"] for cell in back.report()["cells"]} == {"ok"}, back.output
    assert back.report()["gpu_info"][2]["taken_out"] is None


def test_a_run_of_which_no_gpu_is_left_is_not_resumed(tmp_path: Path) -> None:
    """The folder was carried to another machine: refused, and nothing is written."""
    nvml = FakeNvml(tmp_path, gpus=2)
    folder = tmp_path / "run"
    prepare(nvml, folder)
    before = sorted(folder.rglob("*"))
    nvml.remove(0)
    node = Node(folder, environment=nvml.environment | beside(nvml))
    assert node.wait() == 2, node.output
    assert f"GPU 0 of this run ({uuid(0)}) is not in this machine. Nothing was started." in node.output
    assert sorted(folder.rglob("*")) == before


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
