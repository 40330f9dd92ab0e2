"""Real processes on two devices: whose fault a failure is, and what the run makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.records import Skipped, TakenOut
from tests.fakes import faults
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, Node, leftovers
from tests.fakes.nvml import FakeNvml, uuid

PREPARE = """
import json
from pathlib import Path
from orchestrator.gpu import devices
from protocol.messages import Deadlines
from tests.fakes import faults
models = [faults.model(name, **config) for name, config in json.loads({models!r}).items()]
deadlines = Deadlines(start=20, import_=20, build=20, warm_up=1, measure=1, finish=20)
found = devices.resolve("all", visible=None, cores=(0, 1))
faults.prepare(Path({folder!r}), *models, machines=found, deadlines=deadlines)
print("null")
"""


def on_gpus(nvml: FakeNvml, folder: Path, models: dict[str, dict[str, str]]) -> Node:
    """A run of these models on every GPU that the fake NVML shows, begun. A launch has a second to measure."""
    nvml.python(PREPARE.format(folder=str(folder), models=json.dumps(models)))
    return Node(folder, environment=nvml.environment | beside(nvml))


def cells(report: dict[str, Any], model: str) -> list[dict[str, Any]]:
    """What became of a model's cells."""
    return [cell for cell in report["cells"] if cell["model_name"] == model]


def test_a_model_that_fails_on_two_devices_is_skipped(tmp_path: Path) -> None:
    """Its other cells are failures with the reason; no device is blamed, and the other model is measured everywhere."""
    folder = tmp_path / "run"
    bad, good = faults.model("bad", do="not finite"), faults.model("good")
    faults.prepare(folder, bad, good, devices=2, batch_sizes=(1, 2, 3, 4, 5, 6, 7, 8))
    node = Node(folder)
    assert node.wait() == 4, node.output
    tried = [one for one in node.archive().attempts if one.start.cell.startswith("bad")]
    assert len(tried) < 16
    (skipped,) = [one for one in node.records() if isinstance(one, Skipped)]
    assert skipped.model == "bad"
    assert skipped.reason.startswith("loss is not finite on cpu:")
    assert skipped.only == "fault fp32"
    assert "bad fault fp32 is skipped on every device" in node.output
    report = node.report()
    assert {cell["status"] for cell in cells(report, "bad")} == {"failed"}
    why = f"the model is skipped in this workload, precision and input size: {skipped.reason}"
    told = [cell for cell in cells(report, "bad") if cell["reason"] == why]
    assert len(told) == 16 - len(tried)
    assert {cell["status"] for cell in cells(report, "good")} == {"ok"}
    assert not any(isinstance(one, TakenOut) for one in node.records())
    assert any(one["evidence"]["fault"].startswith("the model's") for one in report["failures"])
    assert leftovers(folder) == NOTHING


def test_a_device_on_which_two_cells_fail_is_taken_out(tmp_path: Path) -> None:
    """The same cells work on the other device: that one is measured to the end, and the report says why."""
    folder = tmp_path / "run"
    models = [faults.model(f"bad{number}", do="not finite", on="cpu:0") for number in range(4)]
    faults.prepare(folder, *models, faults.model("good"), devices=2)
    node = Node(folder)
    assert node.wait() == 4, node.output
    (out,) = [one for one in node.records() if isinstance(one, TakenOut)]
    assert (out.device, out.reason) == ("cpu:0", "2 cells failed on it that work on another device")
    report = node.report()
    assert {cell["status"] for cell in report["cells"] if cell["gpu_uuid"] == "cpu:1"} == {"ok"}
    failures = [one for one in report["failures"] if one["status"] == "failed"]
    assert {one["evidence"]["fault"] for one in failures} == {"the device's: the same cell was measured on cpu:1"}
    text = (folder / "report.txt").read_text(encoding="utf-8")
    assert "cpu:0 was taken out of the run: 2 cells failed on it" in text
    assert leftovers(folder) == NOTHING


def test_a_gpu_that_hangs_is_taken_out(tmp_path: Path) -> None:
    """Two cells hang on it and are measured on the other one: it is named, its health is WARN, the other goes on."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=2)
    models = {f"model{number}": {"do": "hang", "on": uuid(0)} for number in range(5)}
    node = on_gpus(nvml, folder, models)
    assert node.wait() == 4, node.output
    (out,) = [one for one in node.records() if isinstance(one, TakenOut)]
    assert (out.device, out.reason) == (uuid(0), "2 cells failed on it that work on another device")
    report = node.report()
    assert {cell["status"] for cell in report["cells"] if cell["gpu_uuid"] == uuid(1)} == {"ok"}
    fault = "the device's: the same cell was measured on GPU 1"
    assert {(one["category"], one["evidence"]["fault"]) for one in report["failures"]} == {("deadline exceeded", fault)}
    assert report["health"]["gpus"][0]["verdict"] == "WARN"
    assert leftovers(folder) == NOTHING


def test_a_deadline_that_is_too_short_takes_no_gpu_out(tmp_path: Path) -> None:
    """A model that is slow on both GPUs is at fault at that size, which is tried no more; the other is measured."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=2)
    node = on_gpus(nvml, folder, {"slow": {"do": "hang"}, "slower": {"do": "hang"}, "good": {}})
    assert node.wait() == 4, node.output
    report = node.report()
    assert {cell["status"] for cell in cells(report, "good")} == {"ok"}
    assert not any(isinstance(one, TakenOut) for one in node.records())
    assert {one.only for one in node.records() if isinstance(one, Skipped)} == {"fault fp32 at batch size 1"}
    assert {one["evidence"]["fault"].partition(":")[0] for one in report["failures"]} == {"the model's"}


def test_the_only_gpu_is_taken_out_by_two_models_in_a_row(tmp_path: Path) -> None:
    """Nobody else can be asked: after the second model has hung, the others are not tried, and the report says why."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=1)
    node = on_gpus(nvml, folder, {f"model{number}": {"do": "hang"} for number in range(5)})
    assert node.wait() == 4, node.output
    report = node.report()
    assert len(report["failures"]) == 2
    assert {one["evidence"]["fault"].partition(",")[0] for one in report["failures"]} == {"the device's"}
    assert [cell["status"] for cell in report["cells"]].count("missing") == 3
    text = " ".join((folder / "report.txt").read_text(encoding="utf-8").split())
    assert "failed on it one after the other, and no other device can tell whose fault that is" in text


def test_a_crash_leaves_its_evidence(tmp_path: Path) -> None:
    """Exit in words, the stack of the crash, and the host's memory stand with the failure in the report."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("bad", do="segfault"))
    node = Node(folder)
    assert node.wait() == 4, node.output
    evidence = node.report()["failures"][0]["evidence"]
    assert evidence["exit"] == "killed by SIGSEGV"
    assert "Segmentation fault" in evidence["stacks"]
    assert int(evidence["available_bytes"]) > 0
    assert (
        evidence["fault"] == "the model's or the device's, which could not be told: no other device has the same cell"
    )
    text = (folder / "report.txt").read_text(encoding="utf-8")
    assert "Root cause: cpu:0: bad fault fp32 at batch size 1: crashed" in text


@pytest.mark.parametrize("gpus", [1, 2])
def test_somebody_who_stops_workers_takes_no_gpu_out(tmp_path: Path, gpus: int) -> None:
    """Two models are stopped by SIGSTOP on a sound GPU: they have failed, nobody is blamed, the others are measured."""
    folder, nvml = tmp_path / "run", FakeNvml(tmp_path, gpus=gpus)
    node = on_gpus(
        nvml, folder, {f"stopped{number}": {"do": "stop", "on": uuid(0)} for number in range(2)} | {"good": {}}
    )
    assert node.wait() == 4, node.output
    assert not any(isinstance(one, TakenOut | Skipped) for one in node.records())
    report = node.report()
    assert [one["category"] for one in report["failures"]] == ["deadline exceeded"] * 2
    assert {one["evidence"]["fault"].partition(":")[0] for one in report["failures"]} == {
        "neither the model's nor the device's"
    }
    assert all(one["evidence"]["state"].startswith("T (stopped)") for one in report["failures"])
    assert [cell["status"] for cell in report["cells"]].count("ok") == 3 * gpus - 2
    assert leftovers(folder) == NOTHING
