"""Real shortage of memory: the kernel refuses a worker of a CPU device, and a smaller batch is measured."""

import json
import resource
import subprocess
import sys
from pathlib import Path

from orchestrator import archive
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes import faults
from tests.fakes.node import NOTHING, ROOT, leftovers

LIMIT = 400 * 2**20
"""Bytes of data a process may have: what a worker of this test needs itself, and four items of 64 MiB."""


def resume(folder: Path) -> subprocess.CompletedProcess[str]:
    """Work on the run with RLIMIT_DATA set, which every process of it inherits."""
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", "resume", str(folder)],
        cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_out_of_memory_ends_degraded(tmp_path: Path) -> None:
    """32 items do not fit, 16 and 8 neither, 4 do: the result says so, and holds every attempt."""
    folder = tmp_path / "run"
    hungry = faults.model("hungry", do="out of memory")
    faults.prepare(folder, hungry, faults.model("good"), batch_sizes=(32,))
    finished = resume(folder)
    assert finished.returncode == 0, finished.stderr
    report = json.loads((folder / "report.json").read_text())
    entry = next(one for one in report["cells"] if one["model_name"] == "hungry")
    assert entry["status"] == "degraded"
    assert (entry["batch_size_requested"], entry["batch_size"]) == (32, 4)
    attempts = [one for one in archive.load(RunPaths(folder)).attempts if one.start.cell.startswith("hungry")]
    assert [one.start.batch_size for one in attempts] == [32, 16, 8, 4]
    assert [one.failure.category for one in attempts if one.failure] == [Category.OUT_OF_MEMORY] * 3
    assert leftovers(folder) == NOTHING
