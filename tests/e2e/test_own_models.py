"""Models of the user's own in whole runs: the examples of the docs, and code that goes wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.state import archive
from orchestrator.state.archive import Archive
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes.commands import ROOT, python

EXAMPLES = ROOT / "docs" / "examples"


def run(folder: Path, words: str, *, expected: int = 0, **environment: str) -> tuple[dict[str, Any], Archive]:
    options = f"run --gpu-ids cpu:0 -i 2 -w 1 --launches 1 -o report.json -f json --runs-folder runs {words}"
    done = python("-m", "orchestrator", *options.split(), cwd=folder, **environment)
    assert done.returncode == expected, done.stdout + done.stderr
    (made,) = (folder / "runs").iterdir()
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report, archive.load(RunPaths(made))


def test_the_models_of_the_docs_are_measured(tmp_path: Path) -> None:
    """docs/examples/own_models.yaml, own_model.py with its own loss and step, and the first class of the page."""
    section = (ROOT / "docs" / "own-models.md").read_text().split("## A class in a file")[1]
    (tmp_path / "net.py").write_text(section.split("```python\n")[1].split("```")[0])
    names = ["bert_small", "resnet18", "towers", f"{EXAMPLES}/own_model.py:OwnStep", "net.py:Net"]
    words = f"--models-file {EXAMPLES}/own_models.yaml -m {','.join(names)} -b 1 --phases training --allow-code"
    report, _ = run(tmp_path, words)
    assert [one["model_name"] for one in report["results"]] == names
    assert report["summary"]["cells"]["ok"] == report["summary"]["cells"]["planned"] == len(names)
    towers, step = (one["training_metrics"]["batch_size_1"] for one in report["results"][2:4])
    assert report["results"][2]["parameters_count"] == 10_000 * 64 + 3 * 16 * 16 * 64 + 64
    assert towers["forward_time_ms"] > 0
    assert (step["status"], step["forward_time_ms"]) == ("ok", None)
    assert step["total_iteration_time_ms"] > 0


UNSUITABLE = """
import torch

class Complex(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 2)
        self.turn = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 4)

class Unbuilt(Complex):
    def __init__(self):
        raise OSError("no such weights")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_cells_that_a_model_is_unsuitable_for_cost_no_others(tmp_path: Path, seed: int) -> None:
    """In whatever order: fp32 is measured where half precision cannot be; what cannot be built is tried once."""
    (tmp_path / "net.py").write_text(UNSUITABLE)
    words = f"-m net.py:Complex,net.py:Unbuilt -p fp32,bf16 --phases load,inference -b 1 --seed {seed} --allow-code"
    report, kept = run(tmp_path, words, expected=4)
    of_complex = {
        (cell["workload"], cell["precision"]): cell["status"]
        for cell in report["cells"]
        if cell["model_name"] == "net.py:Complex"
    }
    assert of_complex == {
        ("load", "fp32"): "ok",
        ("inference", "fp32"): "ok",
        ("load", "bf16"): "failed",
        ("inference", "bf16"): "failed",
    }
    assert sum("unbuilt" in attempt.start.cell for attempt in kept.attempts) == 1
    reasons = {cell["reason"] for cell in report["cells"] if cell["model_name"] == "net.py:Unbuilt"}
    assert any(f"skipped: {Category.NOT_BUILT}" in reason for reason in reasons)
    assert all("OSError: no such weights" in reason for reason in reasons)
