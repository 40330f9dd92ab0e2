"""Real processes on two devices: whose fault a failure is, and what the run makes of it."""

from pathlib import Path
from typing import Any

from orchestrator.disk.records import Skipped, TakenOut
from tests.fakes import faults
from tests.fakes.node import NOTHING, Node, leftovers


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
    told = [cell for cell in cells(report, "bad") if cell["reason"] == f"the model is skipped: {skipped.reason}"]
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
