"""A burn-in on an NVML of our own that says a GPU is too hot: its load is ended, the other's goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.cuda import beside
from tests.fakes.node import ROOT
from tests.fakes.nvml import FakeNvml

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_gpu_that_is_too_hot_fails_and_the_others_go_on(tmp_path: Path) -> None:
    """By --inject hot, through telemetry, journal and verdict: exit code 3, and never PASS for any of them.

    There is no GPU behind this NVML, so that nothing is measured here: what runs when the heat comes is ended in
    tests/orchestrator/engine/test_conductor.py.
    """
    nvml = FakeNvml(tmp_path, gpus=2)
    words = ("run", "--burn-in", "45s", "--gpu-ids", "0,1", "--inject", "hot:1:95", "--quiet")
    places = ("--runs-folder", str(tmp_path / "runs"), "-o", str(tmp_path / "report.json"))
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words, *places],
        cwd=ROOT,
        env={**os.environ, **nvml.environment, **beside(nvml)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "GPU 1 is taken out of this run: too hot: for 10 s at the limit" in done.stderr
    assert "GPU 0 is taken out" not in done.stderr
    night = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["burn_in"]
    first, second = night["gpus"]
    assert (first["verdict"], second["verdict"], night["tainted"]) == ("UNKNOWN", "FAIL", True)
    assert second["reasons"][0]["text"].startswith("too hot: for 10 s at the limit at which it slows itself down, 95")
    assert any(reason["text"].startswith("tainted") for gpu in night["gpus"] for reason in gpu["reasons"])
