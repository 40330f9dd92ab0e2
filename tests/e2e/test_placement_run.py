"""Real processes on two devices: whose fault a failure is, and what the run makes of it."""

from pathlib import Path
from typing import Any

from orchestrator.state.failure_policy import STRIKES
from orchestrator.store.journal_records import Quarantine, Skipped
from protocol.cell import Scalar
from protocol.failure import Category
from protocol.messages import Deadlines
from tests.fakes import faults, gpu_runs
from tests.fakes.node import Node, start
from tests.fakes.nvml import FakeNvml, uuid

DEADLINES = Deadlines(start=20, import_=20, build=20, warm_up=0.7, measure=1, finish=20)


def run_on_gpus(folder: Path, models: dict[str, dict[str, Scalar]]) -> tuple[Node, dict[str, Any]]:
    """A run of these models on two GPUs, to its end, which is incomplete; and its report."""
    found = [faults.model(name, **config) for name, config in models.items()]
    node = gpu_runs.start(FakeNvml(folder, gpus=2), folder / "run", *found, deadlines=DEADLINES)
    return node, node.ended(4)


def statuses(report: dict[str, Any], model: str) -> set[str]:
    return {cell["status"] for cell in report["cells"] if cell["model_name"] == model}


def faulty(report: dict[str, Any]) -> set[str]:
    """Return the attributions of the failures: the first words of their evidence."""
    return {one["evidence"]["fault"].partition(":")[0].partition(",")[0] for one in report["failures"]}


def test_a_model_that_fails_on_two_devices_is_skipped(tmp_path: Path) -> None:
    """Its other cells are failures with the reason; no device is blamed, and the other model is measured everywhere."""
    sizes = tuple(range(1, 9))
    bad, good = faults.model("bad", do="not finite"), faults.model("good")
    node = start(tmp_path / "run", bad, good, devices=2, batch_sizes=sizes)
    report = node.ended(4)
    tried = [one for one in node.archive().attempts if one.start.cell.startswith("bad")]
    (skip,) = node.of(Skipped)
    assert (skip.model, skip.only) == ("bad", "fault fp32")
    assert skip.reason.startswith(f"{Category.NOT_FINITE} (cpu:")
    assert (statuses(report, "bad"), statuses(report, "good")) == ({"failed"}, {"ok"})
    untried = [cell for cell in report["cells"] if cell["reason"].endswith(f": {skip.reason}")]
    assert len(untried) == 2 * len(sizes) - len(tried) > 0
    assert node.of(Quarantine) == []
    assert "the model" in faulty(report)


def test_a_device_on_which_two_cells_fail_is_quarantined(tmp_path: Path) -> None:
    """Two models hang on it and are measured on the other one: it is named, its health is WARN, the other goes on."""
    node, report = run_on_gpus(tmp_path, {f"model{number}": {"do": "hang", "on": uuid(0)} for number in range(5)})
    (quarantine,) = node.of(Quarantine)
    assert quarantine.device == uuid(0)
    assert (quarantine.reason.startswith(f"{STRIKES} cells "), "another device" in quarantine.reason) == (True, True)
    assert {cell["status"] for cell in report["cells"] if cell["gpu_uuid"] == uuid(1)} == {"ok"}
    assert {one["category"] for one in report["failures"]} == {Category.DEADLINE}
    assert faulty(report) == {"the device"}
    assert report["health"]["gpus"][0]["verdict"] == "WARN"
    assert report["gpu_info"][0]["quarantined"] == quarantine.reason


def test_a_person_who_stops_workers_takes_no_gpu_out(tmp_path: Path) -> None:
    """Two models are stopped by SIGSTOP on a healthy GPU: they fail, nobody is blamed, the others are measured."""
    stopped: dict[str, dict[str, Scalar]] = {f"stopped{number}": {"do": "stop", "on": uuid(0)} for number in range(2)}
    node, report = run_on_gpus(tmp_path, stopped | {"good": {}})
    assert (node.of(Quarantine), node.of(Skipped)) == ([], [])
    assert [one["category"] for one in report["failures"]] == [Category.DEADLINE] * len(stopped)
    [fault] = faulty(report)
    assert fault.startswith("neither ")
    assert all(one["evidence"]["state"].startswith("T (stopped)") for one in report["failures"])
    assert [cell["status"] for cell in report["cells"]].count("ok") == len(report["cells"]) - len(stopped)
