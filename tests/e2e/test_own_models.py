"""Models of the user's own in whole runs: the examples of the docs, and code that goes wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.state import archive
from orchestrator.state.archive import Archive
from protocol.paths import RunPaths
from tests.fakes.commands import ROOT, python

EXAMPLES = ROOT / "docs" / "examples"

WITNESS = """
import pathlib, torch
process = pathlib.Path("/proc/self/comm").read_text().strip()
with open("witnesses", "a") as file:
    print(process, file=file)

class Good(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 2)
    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 4)

class Bad(Good):
    def forward(self, x):
        return self.no_such_layer(x)
"""


SHADOW = """
models:
  - {name: shadow, class: transformers.Good, input_shape: [2, 4]}
"""


def run(folder: Path, words: str, *, expected: int = 0, **environment: str) -> tuple[dict[str, Any], Archive]:
    """The report and the run of a command that measures little on a CPU device."""
    options = f"run --gpu-ids cpu:0 -i 2 -w 1 -o report.json -f json --runs-folder runs {words}"
    done = python("-m", "orchestrator", *options.split(), cwd=folder, **environment)
    assert done.returncode == expected, done.stdout + done.stderr
    (made,) = (folder / "runs").iterdir()
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report, archive.load(RunPaths(made))


def test_the_classes_of_the_docs_are_measured(tmp_path: Path) -> None:
    """The page's first class as it stands there, and docs/examples/own_model.py with its own loss and its own step."""
    section = (ROOT / "docs" / "own-models.md").read_text().split("## A class in a file")[1]
    (tmp_path / "net.py").write_text(section.split("```python\n")[1].split("```")[0])
    names = [*(f"{EXAMPLES}/own_model.py:{name}" for name in ("TwoTowers", "OwnStep")), "net.py:Net"]
    report, _ = run(tmp_path, f"-m {','.join(names)} -b 2 --allow-code")
    towers, step, _ = report["results"]
    assert [one["model_name"] for one in report["results"]] == names
    assert report["summary"]["cells"]["ok"] == report["summary"]["cells"]["planned"] == 3 * len(names)
    assert towers["parameters_count"] == 10_000 * 256 + 3 * 256 * 256 + 256
    whole, in_parts = (one["training_metrics"]["batch_size_2"] for one in (step, towers))
    assert in_parts["forward_time_ms"] > 0
    assert (whole["status"], whole["forward_time_ms"]) == ("ok", None)
    assert whole["total_iteration_time_ms"] > 0


def test_the_models_file_of_the_docs_is_measured(tmp_path: Path) -> None:
    """docs/examples/own_models.yaml: of transformers, of torchvision, and of the user's own."""
    report, _ = run(tmp_path, f"--models-file {EXAMPLES}/own_models.yaml -b 1 --phases training --allow-code")
    assert [one["model_name"] for one in report["results"]] == ["bert_small", "resnet18", "towers"]
    assert report["summary"]["cells"]["ok"] == len(report["results"])


@pytest.mark.parametrize(("isolation", "by_option"), [("fork", False), ("exec", True)])
def test_own_code_runs_in_processes_of_launches_alone(tmp_path: Path, isolation: str, by_option: bool) -> None:
    """A model that fails fails alone, with the user's traceback first. Their transformers/ replaces the installed one.

    Whether --pythonpath or PYTHONPATH leads to it, neither the zygote nor the orchestrator imports any of it.
    """
    library = tmp_path / "library"
    (library / "transformers").mkdir(parents=True)
    (library / "transformers" / "__init__.py").write_text(WITNESS, encoding="utf-8")
    (tmp_path / "net.py").write_text(WITNESS, encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(SHADOW, encoding="utf-8")
    words = "--models-file mine.yaml -m shadow,net.py:Bad,net.py:Good -b 2 --phases inference --allow-code"
    words += f" --isolation {isolation}" + (f" --pythonpath {library}" if by_option else "")
    environment = {} if by_option else {"PYTHONPATH": f"{ROOT}:{library}"}
    report, found = run(tmp_path, words, expected=4, **environment)
    statuses = {one["model_name"]: one["inference_metrics"]["batch_size_2"]["status"] for one in report["results"]}
    assert statuses == {"shadow": "ok", "net.py:Bad": "failed", "net.py:Good": "ok"}
    (failure,) = (attempt.failure for attempt in found.attempts if attempt.failure)
    assert "AttributeError: 'Bad' object has no attribute 'no_such_layer'" in failure.message
    assert failure.message.endswith(f"({tmp_path}/net.py, line 15)")
    assert str(failure.traceback).splitlines()[1] == f'  File "{tmp_path}/net.py", line 15, in forward'
    assert (tmp_path / "witnesses").read_text().split() == ["gpubench-worker"] * len(statuses)


UNSUITABLE = (
    WITNESS
    + """
class Complex(Good):
    def __init__(self):
        super().__init__()
        self.turn = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))

class Unbuilt(Good):
    def __init__(self):
        raise OSError("no such weights")
"""
)


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
    assert any(reason.startswith("the model is skipped: model cannot be built") for reason in reasons)
    assert all("OSError: no such weights" in reason for reason in reasons)
