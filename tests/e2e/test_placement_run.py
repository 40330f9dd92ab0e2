"""Real processes on two devices: whose fault a failure is, and what the run makes of it."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.records import Skipped, TakenOut
from protocol.cell import Scalar
from protocol.failure import Category
from protocol.messages import Deadlines
from tests.fakes import faults, gpu_runs
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml, uuid

ON_ITS_DEVICE = "2 cells failed on it that work on another device"
DEADLINES = Deadlines(start=20, import_=20, build=20, warm_up=0.7, measure=1, finish=20)


def run_on_gpus(nvml: FakeNvml, folder: Path, models: dict[str, dict[str, Scalar]]) -> Node:
    """A run of these models on every GPU that the fake NVML shows, to its end, which is incomplete."""
    found = [faults.model(name, **config) for name, config in models.items()]
    gpu_runs.prepare(nvml, folder, *found, deadlines=DEADLINES)
    node = gpu_runs.resume(nvml, folder)
    assert node.wait() == 4, node.output
    return node


def cells(report: dict[str, Any], model: str) -> list[dict[str, Any]]:
    """What became of a model's cells."""
    return [cell for cell in report["cells"] if cell["model_name"] == model]


def taken_out(node: Node) -> list[tuple[str, str]]:
    """The devices that were taken out, with the reason."""
    return [(one.device, one.reason) for one in node.records() if isinstance(one, TakenOut)]


def skipped(node: Node) -> list[Skipped]:
    """The models that were skipped."""
    return [one for one in node.records() if isinstance(one, Skipped)]


def faulty(report: dict[str, Any]) -> set[str]:
    """Whose fault the failures are: the beginning of what their evidence says."""
    return {one["evidence"]["fault"].partition(":")[0].partition(",")[0] for one in report["failures"]}


def test_a_model_that_fails_on_two_devices_is_skipped(tmp_path: Path) -> None:
    """Its other cells are failures with the reason; no device is blamed, and the other model is measured everywhere."""
    folder, sizes = tmp_path / "run", tuple(range(1, 9))
    bad, good = faults.model("bad", do="not finite"), faults.model("good")
    faults.prepare(folder, bad, good, devices=2, batch_sizes=sizes)
    node = Node(folder)
    assert node.wait() == 4, node.output
    report = node.report()
    tried = [one for one in node.archive().attempts if one.start.cell.startswith("bad")]
    (skip,) = skipped(node)
    assert (skip.model, skip.only) == ("bad", "fault fp32")
    assert skip.reason.startswith(f"{Category.NOT_FINITE} on cpu:")
    assert {cell["status"] for cell in cells(report, "bad")} == {"failed"}
    untried = [cell for cell in cells(report, "bad") if cell["reason"].endswith(f": {skip.reason}")]
    assert len(untried) == 2 * len(sizes) - len(tried) > 0
    assert {cell["status"] for cell in cells(report, "good")} == {"ok"}
    assert taken_out(node) == []
    assert "the model's" in faulty(report)
    assert leftovers(folder) == NOTHING


def test_a_device_on_which_two_cells_fail_is_taken_out(tmp_path: Path) -> None:
    """Two models hang on it and are measured on the other one: it is named, its health is WARN, the other goes on."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=2)
    node = run_on_gpus(nvml, folder, {f"model{number}": {"do": "hang", "on": uuid(0)} for number in range(5)})
    assert taken_out(node) == [(uuid(0), ON_ITS_DEVICE)]
    report = node.report()
    assert {cell["status"] for cell in report["cells"] if cell["gpu_uuid"] == uuid(1)} == {"ok"}
    assert {one["category"] for one in report["failures"]} == {Category.DEADLINE}
    assert faulty(report) == {"the device's"}
    assert report["health"]["gpus"][0]["verdict"] == "WARN"
    assert report["gpu_info"][0]["taken_out"] == ON_ITS_DEVICE
    assert leftovers(folder) == NOTHING


def test_a_deadline_that_is_too_short_takes_no_gpu_out(tmp_path: Path) -> None:
    """A model that is slow on both GPUs is at fault at that size, which is tried no more; the other is measured."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=2)
    node = run_on_gpus(nvml, folder, {"slow": {"do": "hang"}, "slower": {"do": "hang"}, "good": {}})
    report = node.report()
    assert {cell["status"] for cell in cells(report, "good")} == {"ok"}
    assert taken_out(node) == []
    assert {one.only for one in skipped(node)} == {"fault fp32 at batch size 1"}
    assert faulty(report) == {"the model's"}


def test_the_only_gpu_is_taken_out_by_two_models_in_a_row(tmp_path: Path) -> None:
    """No other GPU can tell whose fault it is: after the second model has hung, the others are not tried."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=1)
    node = run_on_gpus(nvml, folder, {f"model{number}": {"do": "hang"} for number in range(5)})
    report = node.report()
    assert [device for device, _ in taken_out(node)] == [uuid(0)]
    assert len(report["failures"]) == 2
    assert faulty(report) == {"the device's"}
    assert [cell["status"] for cell in report["cells"]].count("missing") == len(report["cells"]) - 2


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_person_who_stops_workers_takes_no_gpu_out(tmp_path: Path, gpus: int) -> None:
    """Two models are stopped by SIGSTOP on a healthy GPU: they fail, nobody is blamed, the others are measured."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=gpus)
    stopped: dict[str, dict[str, Scalar]] = {f"stopped{number}": {"do": "stop", "on": uuid(0)} for number in range(2)}
    node = run_on_gpus(nvml, folder, stopped | {"good": {}})
    assert (taken_out(node), skipped(node)) == ([], [])
    report = node.report()
    assert [one["category"] for one in report["failures"]] == [Category.DEADLINE] * len(stopped)
    assert faulty(report) == {"neither the model's nor the device's"}
    assert all(one["evidence"]["state"].startswith("T (stopped)") for one in report["failures"])
    assert [cell["status"] for cell in report["cells"]].count("ok") == len(report["cells"]) - len(stopped)
    assert leftovers(folder) == NOTHING
