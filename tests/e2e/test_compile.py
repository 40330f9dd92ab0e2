"""torch.compile as a dimension of a cell: costs with empty and filled caches, graph breaks, and errors."""

from pathlib import Path

import pytest

from protocol.paths import RunPaths
from tests.e2e.test_own_models import run

MODEL = """
import torch

class Breaks(torch.nn.Module):  # compiled outputs are wrong, and the number of calls makes torch compile again
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(64, 64)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = self.net(x) * (2 if torch.compiler.is_compiling() else 1) + 0 * self.calls
        torch._dynamo.graph_break()
        return x.relu()

    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 64)

class Compiles(Breaks):
    def __init__(self):
        super().__init__()
        self.net.compile(backend="eager")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compiling_is_measured_and_its_breaks_are_named(tmp_path: Path) -> None:
    """Cold and cached time, the user's lines, wrong outputs and exit code 1. Caches are removed, and load is eager."""
    (tmp_path / "net.py").write_text(MODEL)
    words = "-m net.py:Breaks,net.py:Compiles -b 2 --phases inference --compile eager,default --launches 2 --allow-code"
    words += " --compile-shapes 8,16"
    report, archive = run(tmp_path, words, expected=1)
    causes = [(cause["kind"], cause["text"].split(", ")[:2]) for cause in report["verdict"]["causes"]]
    assert causes == [("wrong result", [f"WRONG: net.py:{name}", "default"]) for name in ("Breaks", "Compiles")]
    found = {
        (one["model_name"], one["compile_mode"]): one["inference_metrics"]["batch_size_2"] for one in report["results"]
    }
    assert {metric["status"] for metric in found.values()} == {"ok"}
    assert found["net.py:Breaks", "eager"]["compilation"] is None
    compiled = found["net.py:Breaks", "default"]["compilation"]
    assert compiled["cold_compile_ms"] > compiled["cached_compile_ms"] > 0
    assert compiled["cold_first_call_ms"] > compiled["cold_compile_ms"]
    assert compiled["graphs"] >= 2
    (line,) = {place.rpartition("net.py:")[2].partition(":")[0] for place in compiled["graph_breaks"]}
    assert MODEL.splitlines()[int(line) - 1].strip() == "torch._dynamo.graph_break()"
    assert any("calls" in place for place in compiled["recompilations"])
    assert (compiled["relative_error"], compiled["within_tolerance"]) == (pytest.approx(1), False)
    assert compiled["speed_up"] is None
    assert all("one size" in one["error"] for one in compiled["shapes"])
    assert found["net.py:Compiles", "eager"]["compilation"]["own"] is True
    assert list(RunPaths(archive.paths.folder).compiler_caches()) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_changing_shapes_are_met_in_three_ways(tmp_path: Path) -> None:
    """A model that ships, in tokens: static compiles each size again, dynamic none, and padding one bucket less."""
    words = "-m lstm -b 1 --seq-len 8 --phases inference --compile eager,default --launches 1"
    report, _ = run(tmp_path, f"{words} --compile-shapes 5,8,12 --buckets 8")
    (compiled,) = (
        one["inference_metrics"]["batch_size_1"]["compilation"]
        for one in report["results"]
        if one["compile_mode"] == "default"
    )
    static, dynamic, padded = compiled["shapes"]
    assert [one["way"] for one in compiled["shapes"]] == ["static", "dynamic", "padded"]
    assert {one["calls"] for one in compiled["shapes"]} == {12}
    assert static["recompilations"] > padded["recompilations"] > dynamic["recompilations"] == 0
    assert (static["cache_hits"], dynamic["cache_hits"], padded["cache_hits"]) == (9, 11, 10)
    assert [one["input_size"] for one in padded["sizes"]] == [5, 8, 12]
    assert padded["padding"] == pytest.approx((8 + 8 + 16) / (5 + 8 + 12))


def test_without_a_compiler_a_cell_is_unsupported(tmp_path: Path) -> None:
    """One launch finds out, though two are planned; the eager cell is measured, and the exit code is 0."""
    words = "-m autoencoder -b 1 --phases inference --compile eager,default --launches 2"
    report, archive = run(tmp_path, words, CXX="no-compiler")
    eager, compiled = (one["inference_metrics"]["batch_size_1"] for one in report["results"])
    assert (eager["status"], compiled["status"]) == ("ok", "unsupported")
    assert "CXX=no-compiler" in compiled["reason"]
    assert len(archive.tries[compiled["cell"]]) == 1
    assert (report["summary"]["cells"]["unsupported"], report["summary"]["cells"]["failed"]) == (1, 0)
