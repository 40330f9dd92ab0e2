"""The benches can be begun: each is there as a module, and what they measure with still fits the program."""

import importlib
from pathlib import Path

from protocol.cell import Workload
from tests import bench
from tests.bench.harness import stored_run


def test_each_bench_can_be_imported() -> None:
    """And does nothing until it is run."""
    for path in Path(bench.__path__[0]).glob("*.py"):
        importlib.import_module(f"tests.bench.{path.stem}")


def test_a_bench_measures_what_the_command_line_means() -> None:
    """A run and a burn-in, by the program's own options."""
    asked = stored_run("cpu:0", "-m", "lstm", "-b", "2", "--phases", "inference")
    assert {cell.model for cell in asked.plan.cells} >= {"lstm"}
    burning = stored_run("cpu:0", "--burn-in", "30s")
    assert Workload.SOAK in {cell.workload for cell in burning.plan.cells}
