"""torch.compile as a dimension of a cell: costs with empty and filled caches, graph breaks, and errors."""

from pathlib import Path

import pytest

from protocol.paths import RunPaths
from tests.e2e.test_own_models import run

MODEL = """
import torch

class Breaks(torch.nn.Module):  # outputs change from call to call, so the compiled call is wrong
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(64, 64)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = self.net(x) * self.calls
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
    """Cold and cached time, the user's lines, the error against eager; caches are removed, and load stays eager."""
    (tmp_path / "net.py").write_text(MODEL)
    words = "-m net.py:Breaks,net.py:Compiles -b 2 --phases inference --compile eager,default --launches 2 --allow-code"
    report, archive = run(tmp_path, words)
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
    assert compiled["speed_up"] > 0
    assert found["net.py:Compiles", "eager"]["compilation"]["own"] is True
    assert list(RunPaths(archive.paths.folder).compiler_caches()) == []
