"""`triage` on CPU devices, from the command line to its first page."""

import json
from pathlib import Path

import pytest

from tests.fakes.commands import python


@pytest.mark.slow
def test_triage_runs_without_a_gpu_and_judges_no_cpu_device(tmp_path: Path) -> None:
    """Every cell in both modes, what a full node loses, and in the place of a verdict why there is none."""
    options = "--gpu-ids cpu:0,cpu:1 -m lstm,h2d -b 1 -p fp32 -i 2 -w 1 --launches 2 -f json,txt"
    done = python("-m", "orchestrator", "triage", *options.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "benchmark_report.json").read_text())
    assert {result["mode"] for result in report["results"]} == {"loaded", "solo"}
    assert {one["verdict"] for one in report["stragglers"]} == {"no verdict"}
    assert [one["gpu_uuid"] for one in report["full_node"]] == ["cpu:0", "cpu:1"]
    assert all(one["ratio"] > 0 for one in report["full_node"])
    assert "Which device" in (tmp_path / "benchmark_report.txt").read_text()
    assert report["summary"]["cells"]["ok"] == 4
