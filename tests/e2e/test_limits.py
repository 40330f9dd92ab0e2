"""A run with a time limit ends in time, whatever its cells do, and says what it left out."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.node import NOTHING, Node, leftovers

LIMIT_S = 12.0
SLACK = 1.05


def timed(folder: Path, expected_code: int) -> dict[str, Any]:
    """The report of a run that ends in time."""
    begun = time.monotonic()
    node = Node(folder)
    assert node.wait(timeout_s=60) == expected_code, node.output
    assert time.monotonic() - begun <= LIMIT_S * SLACK, node.output
    assert leftovers(folder) == NOTHING
    return node.report()


def by_model(report: dict[str, Any]) -> dict[str, set[str]]:
    """What became of the cells of each model."""
    found: dict[str, set[str]] = {}
    for cell in report["cells"]:
        found.setdefault(cell["model_name"], set()).add(cell["status"])
    return found


@pytest.mark.parametrize("do", ["hang, deaf to SIGTERM", "stop"])
def test_a_launch_that_would_take_too_long_is_ended(tmp_path: Path, do: str) -> None:
    """What hangs is ended when it has had its share, and counts as dropped; everything else is measured."""
    folder = tmp_path / "run"
    faults.prepare(
        folder,
        faults.model("good"),
        faults.model("bad", do=do, above=1),
        batch_sizes=(1, 2),
        devices=2,
        time_limit_s=LIMIT_S,
    )
    report = timed(folder, expected_code=0)
    assert by_model(report) == {"good": {"ok"}, "bad": {"ok", "dropped"}}
    dropped = [cell for cell in report["cells"] if cell["status"] == "dropped"]
    assert {cell["batch_size_requested"] for cell in dropped} == {2}


def test_what_there_is_no_time_for_is_dropped_and_stays_dropped(tmp_path: Path) -> None:
    """Each dropped cell has its reason; a resume of the finished run measures nothing more."""
    folder = tmp_path / "run"
    models = [faults.model(f"m{number}", seconds=1.0) for number in range(30)]
    faults.prepare(folder, *models, time_limit_s=LIMIT_S)
    report = timed(folder, expected_code=0)
    counts = report["summary"]["cells"]
    assert counts["ok"] >= 1
    assert counts["dropped"] >= 20
    assert counts["ok"] + counts["dropped"] == 30
    dropped = [cell for cell in report["cells"] if cell["status"] == "dropped"]
    assert all("the limit of 12 s" in cell["reason"] for cell in dropped)
    assert report["verdict"]["exit_code"] == 0
    again = Node(folder)
    assert again.wait() == 0, again.output
    assert again.report()["summary"]["cells"] == counts
    assert f"{counts['ok']} of 30 cells ok, {counts['dropped']} dropped" in again.output


def test_a_run_in_which_nothing_could_be_measured_is_not_complete(tmp_path: Path) -> None:
    """A limit kept is no success when there is nothing to show for it."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("bad", do="hang"), time_limit_s=LIMIT_S)
    report = timed(folder, expected_code=4)
    assert by_model(report) == {"bad": {"dropped"}}


@pytest.mark.slow
@pytest.mark.alone
def test_quick_light_takes_a_minute_on_a_slow_machine(tmp_path: Path) -> None:
    """From the command to the end of the process, with real models, at most 5 % beyond 60 s."""
    begun = time.monotonic()
    done = python("-m", "orchestrator", "quick", "--light", "--gpu-ids", "cpu:0,cpu:1", cwd=tmp_path)
    assert time.monotonic() - begun <= 60 * SLACK, done.stderr
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "benchmark_report.json").read_text())
    assert {cell["status"] for cell in report["cells"]} <= {"ok", "dropped"}
