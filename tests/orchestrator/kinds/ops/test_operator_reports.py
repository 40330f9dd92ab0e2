"""Reports of runs of operators, of which little or nothing was measured, in every format."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.operators import OperatorStatus
from orchestrator.kinds.ops.chapter import operators
from orchestrator.report.as_brief import to_brief
from orchestrator.report.files import render
from orchestrator.run_reports import reporting
from tests.fakes.operator_runs import OperatorRun, right, wrong


def nothing(_: OperatorRun) -> None:
    """It was interrupted before its first launch."""


def without_probes(run: OperatorRun) -> None:
    run.did(run.operators[0], right("small", 0.01), right("large", 1.0))


def without_large_shapes(run: OperatorRun) -> None:
    run.probed()
    run.did(run.operators[0], right("small", 0.01))


def wrong_alone(run: OperatorRun) -> None:
    run.probed()
    for cell in run.operators:
        run.did(cell, *map(wrong, ("small", "medium", "large")))


@pytest.mark.parametrize("did", [nothing, without_probes, without_large_shapes, wrong_alone])
def test_a_run_without_a_roofline_has_a_report_in_every_format(
    tmp_path: Path, did: Callable[[OperatorRun], None]
) -> None:
    """It has no chart instead of an empty one."""
    run = OperatorRun(tmp_path / "run", "add")
    did(run)
    run.finish(interrupted=did is not wrong_alone)
    made = reporting.make_all(run.paths)
    section = operators(made.report)
    assert section is not None
    assert section.charts == ()
    assert section.table("operator-roofline") is None
    for kind in ReportFormat:
        assert render(made.report, kind, **made.given), kind
    assert to_brief(made.report, made.layout)


def test_large_shapes_are_drawn_below_their_roofs(tmp_path: Path) -> None:
    """With probes and a large shape there is a plot for the device."""
    run = OperatorRun(tmp_path / "run", "add")
    run.probed()
    run.did(run.operators[0], right("small", 0.01), right("medium", 0.1), right("large", 1.0))
    report = run.ended()
    section = operators(report)
    assert section is not None
    (chart,) = section.charts
    assert [len(plot.points) for plot in chart.plots] == [1]
    assert report.operators is not None
    assert {row.status for row in report.operators.rows} == {OperatorStatus.OK, OperatorStatus.MISSING}
