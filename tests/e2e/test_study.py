"""A study in whole: the example of docs/studies.md, what is wrong, and what is unsupported."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import python
from tests.fakes.nvml import ROOT

OPTIONS = "--fast --gpu-ids cpu:0 --no-history -f json,text,html -o out"
FIGURES = ("device_ms", "host_ms", "total_ms", "peak_bytes", "kernels", "operations", "shape_ok", "values_ok")


def study(folder: Path, words: str, expected: int, **environment: str) -> dict[str, Any]:
    done = python("-m", "orchestrator", *f"study {words} {OPTIONS}".split(), cwd=folder, **environment)
    assert done.returncode == expected, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((folder / "out.json").read_bytes())
    return report


def rows(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in report["study"]["rows"]:
        found.setdefault(row["implementation"], []).append(row)
    return found


@pytest.mark.slow
def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    """Each cell has every figure; what compiles has a compile time, and only that."""
    text = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    for language, name in (("yaml", "my.yaml"), ("python", "kernels.py")):
        block = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
        assert block is not None
        (tmp_path / name).write_text(block[1])
    report = study(tmp_path, "my.yaml --allow-code", 0)
    found = rows(report)
    assert [*found] == ["eager", "compiled", "jax", "kernels.py:my_softmax"]
    assert {row["status"] for row in report["study"]["rows"]} == {"ok"}
    assert [row for some in found.values() for row in some if not all(row[name] for name in FIGURES)] == []
    compiling = {name for name, some in found.items() if all(row["compile_ms"] for row in some)}
    assert compiling == {"compiled", "jax"}
    assert report["study"]["varied"] == ["r"]
    assert all(name in (tmp_path / "out.txt").read_text() for name in ("r=64", "r=256", "my_softmax"))


def test_a_wrong_function_has_no_figures(tmp_path: Path) -> None:
    """Of another shape, or not a number: the checks say which, and the exit code is 1."""
    (tmp_path / "kernels.py").write_text(
        "def short(x):\n    return x[:1]\n\ndef nan(x):\n    return x * float('nan')\n"
    )
    (tmp_path / "my.yaml").write_text(
        "operations: [relu]\nsizes: {n: 64}\nprecisions: [fp32]\n"
        'implementations: [eager, "kernels.py:short", "kernels.py:nan"]\n'
    )
    report = study(tmp_path, "my.yaml --allow-code", 1)
    found = {name: some[0] for name, some in rows(report).items()}
    checks = {
        name: (row["status"], row["shape_ok"], row["values_ok"], row["device_ms"] is None)
        for name, row in found.items()
    }
    assert checks == {
        "eager": ("ok", True, True, False),
        "kernels.py:short": ("WRONG", False, None, True),
        "kernels.py:nan": ("WRONG", True, False, True),
    }
    assert [cause["kind"] for cause in report["verdict"]["causes"]] == ["wrong result"] * 2


def test_what_cannot_run_here_is_unsupported(tmp_path: Path) -> None:
    """A backend of attention that a CPU does not have, and JAX where it is not installed. Neither is a failure."""
    (tmp_path / "hidden/jax").mkdir(parents=True)
    (tmp_path / "hidden/jax/__init__.py").write_text("raise ImportError('no jax here')\n")
    (tmp_path / "my.yaml").write_text(
        "operations: [attention]\nsizes: {b: 1, a: 2, t: 16, d: 8}\nprecisions: [fp32]\n"
        "implementations: [flash, cudnn, jax]\n"
    )
    report = study(tmp_path, "my.yaml", 0, PYTHONPATH=f"{ROOT}:{tmp_path / 'hidden'}")
    found = {name: some[0] for name, some in rows(report).items()}
    assert {name: row["status"] for name, row in found.items()} == {
        "flash": "ok",
        "cudnn": "unsupported",
        "jax": "unsupported",
    }
    assert "no jax here" in found["jax"]["reason"]
    assert {one["status"] for one in report["failures"]} == {"unsupported"}
    assert report["summary"]["cells"]["unsupported"] == 2


def test_a_slower_implementation_is_named_by_a_comparison_and_a_threshold(tmp_path: Path) -> None:
    """Two runs of a study, of which the second has a slower function: exit code 1 twice."""
    kernels = tmp_path / "kernels.py"
    kernels.write_text("import time\nimport torch\n\ndef mine(x):\n    return torch.relu(x)\n")
    (tmp_path / "my.yaml").write_text(
        'operations: [relu]\nsizes: {n: 64}\nprecisions: [fp32]\nimplementations: [eager, "kernels.py:mine"]\n'
    )
    (tmp_path / "limits.yaml").write_text(
        "thresholds:\n- {name: fast, figure: call_time_ms, phase: operator, models: [relu], below: 50}\n"
    )
    study(tmp_path, "my.yaml --allow-code --thresholds limits.yaml", 0)
    (tmp_path / "out.json").rename(tmp_path / "old.json")
    kernels.write_text(kernels.read_text().replace("return", "time.sleep(0.1)\n    return"))
    report = study(tmp_path, "my.yaml --allow-code --thresholds limits.yaml --compare-baseline old.json", 1)
    assert [(one["implementation"], one["status"]) for one in report["thresholds"]] == [
        ("eager", "met"),
        ("kernels.py:mine", "missed"),
    ]
    assert report["baseline_comparison"]["cells"] == 2
    done = python("-m", "orchestrator", "compare", "old.json", "out.json", "--format", "json", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    verdicts = {cell["implementation"]: cell["verdict"] for cell in json.loads(done.stdout)["comparisons"][0]["cells"]}
    assert verdicts["kernels.py:mine"] == "SLOWER"


def test_a_cell_that_crashed_is_tried_once_more(tmp_path: Path) -> None:
    """In another process; one that crashes twice has failed. What raises would raise again, and gets no second try."""
    (tmp_path / "kernels.py").write_text(
        "import os, pathlib, signal, torch\n\n"
        "def die(): os.kill(os.getpid(), signal.SIGSEGV)\n\n"
        "def once(x):\n    mark = pathlib.Path(__file__).with_name('crashed')\n"
        "    if not mark.exists():\n        mark.touch()\n        die()\n    return torch.relu(x)\n\n"
        "def always(x): die()\n\n"
        "def raises(x): raise RuntimeError('no')\n"
    )
    names = [f"kernels.py:{name}" for name in ("once", "always", "raises")]
    implementations = ", ".join(f'"{name}"' for name in names)
    (tmp_path / "my.yaml").write_text(
        f"operations: [relu]\nsizes: {{n: 64}}\nprecisions: [fp32]\nimplementations: [{implementations}]\n"
    )
    report = study(tmp_path, "my.yaml --allow-code", 4)
    found = {name: (some[0]["status"], some[0]["cell"]) for name, some in rows(report).items()}
    tried = {cell["cell"]: cell["attempts"] for cell in report["cells"]}
    assert {name: (status, tried[cell]) for name, (status, cell) in found.items()} == {
        names[0]: ("ok", 2),
        names[1]: ("failed", 2),
        names[2]: ("failed", 1),
    }
