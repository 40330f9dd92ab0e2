"""Whole runs on slices of a GPU that is not there: NVML and CUDA of our own, workers that use no GPU."""

from pathlib import Path

import pytest

from orchestrator.config.run_configuration import StoredRun
from orchestrator.gpu.health import records
from orchestrator.gpu.health.records import Vitals
from orchestrator.gpu.telemetry.readings import SHARED
from protocol.paths import RunPaths
from tests.e2e.test_gpus import most_at_once
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml, uuid

PREPARE = """
from pathlib import Path
from orchestrator.gpu import devices
from tests.fakes import faults
found = devices.resolve("all", visible=None, cores=(0, 1))
faults.prepare(Path({folder!r}), faults.model("busy", seconds={seconds}), machines=found,
               required_signals={required!r})
print("null")
"""


def prepare(nvml: FakeNvml, folder: Path, seconds: float = 1.0, required: tuple[str, ...] = ()) -> StoredRun:
    """A run on every slice, and every whole GPU, that the fake NVML shows."""
    from orchestrator.store import run_files

    nvml.python(PREPARE.format(folder=str(folder), seconds=seconds, required=required))
    return run_files.load(RunPaths(folder))


def test_two_slices_and_a_whole_gpu(tmp_path: Path) -> None:
    """They work at once; slices are marked as sharing, measured each on its own, and judged by nobody."""
    nvml = FakeNvml(tmp_path, gpus=2)
    slices = nvml.cut(0, "3g.71gb", "3g.71gb")
    nvml.set({"gpu.0.power_mw": 333_000, "gpu.0.mig.1.memory_used_bytes": 2**30})
    folder = tmp_path / "run"
    prepare(nvml, folder, required=("ecc_uncorrected",))
    nvml.set({"gpu.0.ecc_uncorrected": None})  # of a slice's GPU, from which no verdict comes
    node = Node(folder, environment=nvml.environment | beside(nvml, slices=slices))
    assert node.wait() == 0, node.output
    report, text = node.report(), node.paths.report("txt").read_text()
    assert most_at_once(node) == 3
    assert [(one["gpu_uuid"], one["slice_of"], one["shared_gpu"]) for one in report["gpu_info"]] == [
        (slices[0], uuid(0), True),
        (slices[1], uuid(0), True),
        (uuid(1), None, False),
    ]
    assert [one["verdict"] for one in report["health"]["gpus"]][:2] == ["NOT APPLICABLE", "NOT APPLICABLE"]
    assert report["health"]["gpus"][2]["verdict"] in {"PASS", "WARN"}
    assert report["gpu_info"][0]["average_power_draw_w"] == pytest.approx(333.0)
    assert report["gpu_info"][0]["gpu_memory_total_mb"] == pytest.approx(71e9 / 2**20)
    assert "GPU 0:0, GPU 0:1, identical:" in text
    assert "Readings: power, temperature, clocks and utilisation of the whole GPU" in text
    assert "GPU 0:1: NOT APPLICABLE" in text
    assert "a slice cannot be judged" in text
    assert leftovers(folder) == NOTHING


def test_results_of_slices_say_whose_readings_they_have(tmp_path: Path) -> None:
    """The note of each says it, and the energy of the GPU is nobody's: three processes had it at once."""
    nvml = FakeNvml(tmp_path, gpus=1)
    slices = nvml.cut(0, "1g.18gb", "1g.18gb", "3g.71gb")
    folder = tmp_path / "run"
    prepare(nvml, folder)
    node = Node(folder, environment=nvml.environment | beside(nvml, slices=slices))
    assert node.wait() == 0, node.output
    from orchestrator.analysis import evidence

    gathered = evidence.gather(node.archive())
    assert len(gathered.launches) == 3
    for launch in gathered.launches.values():
        assert launch.readings.note.endswith(SHARED)
        assert launch.readings.temperature_c is not None
        assert launch.readings.energy_j is None


def test_a_gpu_that_is_lost_takes_its_slices_along(tmp_path: Path) -> None:
    """Each slice is taken out with the cause; the other GPU's results stay."""
    nvml = FakeNvml(tmp_path, gpus=2)
    slices = nvml.cut(0, "3g.71gb", "3g.71gb")
    folder = tmp_path / "run"
    prepare(nvml, folder, seconds=2.0)
    node = Node(folder, environment=nvml.environment | beside(nvml, slices=slices))
    node.until(lambda: any(isinstance(record, Vitals) for record in records.read(node.paths.health)))
    nvml.xid(0, 79)
    assert node.wait() == 3, node.output
    taken_out = {one["gpu_uuid"]: one["taken_out"] for one in node.report()["gpu_info"]}
    assert all("Xid 79" in taken_out[one] for one in slices)
    assert taken_out[uuid(1)] is None


def test_a_run_on_slices_is_resumed_on_them(tmp_path: Path) -> None:
    """Slices that are gone since are missed by name before anything is started."""
    nvml = FakeNvml(tmp_path, gpus=1)
    slices = nvml.cut(0, "3g.71gb", "3g.71gb")
    folder = tmp_path / "run"
    prepare(nvml, folder)
    nvml.set({"gpu.0.mig.1.uuid": None})
    gone = Node(folder, environment=nvml.environment | beside(nvml, slices=slices))
    assert gone.wait() == 2, gone.output
    assert f"GPU 0:1 of this run ({slices[1]}) is not in this machine" in gone.output
    nvml.set({"gpu.0.mig.1.uuid": slices[1]})
    unseen = Node(folder, environment=nvml.environment | beside(nvml, slices=slices[:1]))
    assert unseen.wait() == 2, unseen.output
    assert f"so CUDA has no GPU 0:1 ({slices[1]})" in unseen.output


def test_slices_whose_gpu_was_lost_before_a_resume_cost_their_own_cells(tmp_path: Path) -> None:
    """They are gone with it, which nobody has done by cutting it anew: the other GPU goes on."""
    nvml = FakeNvml(tmp_path, gpus=2)
    slices = nvml.cut(1, "3g.71gb", "3g.71gb")
    folder = tmp_path / "run"
    prepare(nvml, folder)
    nvml.remove(1)
    node = Node(folder, environment=nvml.environment | beside(nvml, gpus=1))
    assert node.wait() == 4, node.output
    assert "GPU 1:1 is taken out of this run: it is not in this machine any more" in node.output
    status = {cell["gpu_uuid"]: cell["status"] for cell in node.report()["cells"]}
    assert status == {uuid(0): "ok", **dict.fromkeys(slices, "missing")}
