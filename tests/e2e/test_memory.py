"""Real shortage of memory: the kernel refuses a worker of a CPU device, and a smaller batch is measured."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.state import archive
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes import faults
from tests.fakes.node import NOTHING, ROOT, leftovers

REAL_LIMIT = 1500 * 2**20
"""Too little for the outputs of 1,024 sequences (1 GiB) beside torch and what they are computed from."""

LIMIT = 400 * 2**20
"""Bytes of data a process may have: what a worker of this test needs itself, and four items of 64 MiB."""


def limited(limit: int, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_out_of_memory_ends_degraded(tmp_path: Path) -> None:
    """32 items do not fit, 16 and 8 neither, 4 do: the result says so, and holds every attempt."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("hungry", do="out of memory"), faults.model("good"), batch_sizes=(32,))
    finished = limited(LIMIT, "resume", str(folder), cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    report = json.loads((folder / "report.json").read_text())
    entry = next(one for one in report["cells"] if one["model_name"] == "hungry")
    assert entry["status"] == "degraded"
    assert (entry["batch_size_requested"], entry["batch_size"]) == (32, 4)
    attempts = [one for one in archive.load(RunPaths(folder)).attempts if one.start.cell.startswith("hungry")]
    assert [one.start.batch_size for one in attempts] == [32, 16, 8, 4]
    assert [one.failure.category for one in attempts if one.failure] == [Category.OUT_OF_MEMORY] * 3
    assert leftovers(folder) == NOTHING


@pytest.mark.slow
def test_a_real_model_that_does_not_fit_is_measured_at_a_smaller_batch(tmp_path: Path) -> None:
    """The LSTM at 1,024 items needs more than the limit; what fits is measured, and the report says at which size."""
    options = "run --gpu-ids cpu:0 -m lstm -b 1024 -p fp32 -i 1 -w 1 --launches 1 --phases inference -o out.json"
    finished = limited(REAL_LIMIT, *options.split(), cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    metrics = result["inference_metrics"]["batch_size_1024"]
    assert metrics["degraded"] is True
    assert metrics["batch_size_requested"] == 1024
    assert metrics["batch_size"] in (64, 128, 256, 512)
    assert metrics["attempts"][0]["category"] == "out of memory"
    assert metrics["attempts"][-1]["batch_size"] == metrics["batch_size"]
