"""A burn-in on an NVML of our own that says a GPU is too hot: its load is ended, the other's goes on."""

import json
from pathlib import Path

import pytest

from orchestrator.gpu.telemetry.overheating import HELD_S
from tests.fakes.commands import ROOT, python
from tests.fakes.cuda import beside
from tests.fakes.nvml import FakeNvml

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_gpu_that_is_too_hot_fails_and_the_others_go_on(tmp_path: Path) -> None:
    """By --inject hot, through telemetry, journal and verdict, with nothing to measure: exit code 3, no PASS."""
    nvml = FakeNvml(tmp_path, gpus=2)
    words = ("run", "--burn-in", "30s", "--gpu-ids", "0,1", "--inject", "hot:1:95", "--quiet")
    places = ("--runs-folder", str(tmp_path / "runs"), "-o", str(tmp_path / "report.json"))
    done = python("-m", "orchestrator", *words, *places, cwd=ROOT, **(nvml.environment | beside(nvml)))
    assert done.returncode == 3, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [bool(gpu["quarantined"]) for gpu in report["gpu_info"]] == [False, True]
    first, second = report["burn_in"]["gpus"]
    assert (first["verdict"], second["verdict"], report["burn_in"]["tainted"]) == ("UNKNOWN", "FAIL", True)
    assert second["reasons"][0]["text"].startswith(f"too hot: for {HELD_S:.0f} s ")
