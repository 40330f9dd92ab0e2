"""Percentiles that a comparison shows beside the speed of a cell."""

from pathlib import Path

from orchestrator.compare import run_figures
from protocol.cell import Workload
from tests.fakes import sides


def test_percentiles_of_training_are_those_of_the_whole_step(tmp_path: Path) -> None:
    """Not those of its forward pass, which may get faster while the step gets slower."""
    report = sides.measured(tmp_path / "run").report()
    side = run_figures.of_report(report, "run")
    (step,) = (one for result in report.results for one in result.training_metrics.values())
    (cell,) = (one for one in side.cells if one.key.phase is Workload.TRAINING)
    assert step.statistics is not None
    assert step.statistics.forward_time_p50_ms != step.statistics.iteration_time_p50_ms
    assert cell.figures["p50, ms"] == step.statistics.iteration_time_p50_ms
