"""A run with a time limit ends in time, whatever its cells do, and says what it left out."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from protocol.cell import ModelSpec
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.node import Node, start

LIMIT_S = 16.0
SLACK = 1.05


def timed(folder: Path, *models: ModelSpec, code: int = 0, **options: Any) -> dict[str, Any]:
    """The report of a run that ends in time."""
    begun = time.monotonic()
    report = start(folder, *models, time_limit_s=LIMIT_S, **options).ended(code)
    assert time.monotonic() - begun <= LIMIT_S * SLACK
    return report


def test_a_launch_that_would_take_too_long_is_ended(tmp_path: Path) -> None:
    """Launches that hang or are stopped end when their time is used up, and their cells are dropped. Others are ok."""
    hangs = faults.model("hangs", do="hang, deaf to SIGTERM", above=1, on="cpu:0")
    stops = faults.model("stops", do="stop", above=1, on="cpu:1")
    report = timed(tmp_path / "run", faults.model("good"), hangs, stops, batch_sizes=(1, 2), devices=2)
    others = [cell for cell in report["cells"] if cell["status"] != "ok"]
    assert {cell["status"] for cell in others} == {"dropped"}
    bad = {(cell["model_name"], cell["gpu_uuid"], cell["batch_size_requested"]) for cell in others}
    assert bad == {("hangs", "cpu:0", 2), ("stops", "cpu:1", 2)}


def test_what_there_is_no_time_for_is_dropped_and_stays_dropped(tmp_path: Path) -> None:
    """Each dropped cell has its reason; a resume of the finished run measures nothing more."""
    report = timed(tmp_path / "run", *(faults.model(f"m{number}", seconds=1.0) for number in range(30)))
    counts = report["summary"]["cells"]
    assert counts["ok"] >= 1
    assert counts["dropped"] >= 20
    assert counts["ok"] + counts["dropped"] == 30
    reasons = [cell["reason"] for cell in report["cells"] if cell["status"] == "dropped"]
    assert all(f" {LIMIT_S:g} s" in reason for reason in reasons)
    assert report["verdict"]["exit_code"] == 0
    again = Node(tmp_path / "run")
    assert again.ended()["summary"]["cells"] == counts
    assert re.search(f"{counts['ok']} of 30 .*, {counts['dropped']} dropped", again.output)


def test_a_run_in_which_nothing_could_be_measured_is_not_complete(tmp_path: Path) -> None:
    """A limit kept is no success when there is nothing to show for it."""
    report = timed(tmp_path / "run", faults.model("bad", do="hang"), code=4)
    assert [cell["status"] for cell in report["cells"]] == ["dropped"]


@pytest.mark.slow
@pytest.mark.alone
def test_quick_light_takes_a_minute_on_a_slow_machine(tmp_path: Path) -> None:
    """From the command to the end of the process, with real models, at most 5 % beyond 60 s."""
    begun = time.monotonic()
    done = python("-m", "orchestrator", "quick", "--light", "--gpu-ids", "cpu:0,cpu:1", cwd=tmp_path)
    assert time.monotonic() - begun <= 60 * SLACK
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "benchmark_report.json").read_text())
    assert {cell["status"] for cell in report["cells"]} <= {"ok", "dropped"}
