"""Reports of runs of operators, of which little or nothing was measured, in every format."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.operators import IntervalOver, OperatorStatus, TimeName
from orchestrator.figures.quality import Quality
from orchestrator.kinds.ops.chapter import operators
from orchestrator.report.as_brief import to_brief
from orchestrator.report.files import render
from orchestrator.run_reports import reporting
from protocol.failure import Category, Phase
from protocol.result import ShapeResult
from tests.fakes.operator_runs import OperatorRun, right, wrong
from tests.fakes.runs import gpus

SHAPES = {"small": 0.01, "medium": 0.1, "large": 1.0}


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
    called_wrong = {entry.cell for entry in made.report.cells if entry.quality is Quality.WRONG}
    assert called_wrong == ({cell.id for cell in run.operators} if did is wrong_alone else set())
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


@pytest.mark.parametrize(
    ("category", "status"),
    [
        (Category.EXCEPTION, OperatorStatus.FAILED),
        (Category.INTERRUPTED, OperatorStatus.MISSING),
        (Category.OUT_OF_MEMORY, OperatorStatus.UNSUPPORTED),
    ],
)
def test_shapes_of_a_cell_without_a_result_have_its_state(
    tmp_path: Path, category: Category, status: OperatorStatus
) -> None:
    """Failed only where the verdict counts a failure: an interrupted cell is not, nor one too large for the memory."""
    run = OperatorRun(tmp_path / "run", "add")
    run.failed(run.operators[0], category, phase=Phase.MEASURE)
    run.finish(interrupted=True)
    report = run.report()
    assert report.operators is not None
    cell = run.operators[0].id
    assert {row.status for row in report.operators.rows if row.cell == cell} == {status}
    assert report.summary.cells.failed == (status is OperatorStatus.FAILED)


def mixed(run: OperatorRun) -> None:
    """Right, wrong and failed shapes, and some that were not measured."""
    run.probed()
    for place, cell in enumerate(run.operators):
        factor = 1 + place % 7 if cell.compiles else 1
        shapes = [right(name, factor * pure_ms) for name, pure_ms in SHAPES.items()]
        if place % 5 == 1:
            shapes = [wrong(name) for name in SHAPES]
        elif place % 5 == 2:
            shapes[1] = ShapeResult(shape="medium", error="RuntimeError: CUDA error: device-side assert triggered")
        if place % 5 != 3:
            run.did(cell, *shapes)


def test_all_operators_with_every_kind_of_finding_have_room(tmp_path: Path) -> None:
    """The answer has at most forty lines. The text has each table once, without shapes that were not measured."""
    run = OperatorRun(tmp_path / "run", devices=gpus(2))
    mixed(run)
    run.finish(interrupted=True)
    made = reporting.make_all(run.paths)
    lines = to_brief(made.report, made.layout, ("/data/runs/run", "/data/report.json")).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    lines = render(made.report, ReportFormat.TXT, **made.given).decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert [sum("Category" in line for line in lines), sum("Operator " in line for line in lines)] == [1, 2]
    assert made.report.operators is not None
    section = operators(made.report)
    assert section is not None
    every = section.table("operators")
    assert every is not None
    tried = sum(row.status is not OperatorStatus.MISSING for row in made.report.operators.rows)
    assert len(every.rows) == tried < len(made.report.operators.rows)


def test_rows_of_several_gpus_fit_on_a_line(tmp_path: Path) -> None:
    """The longest name is whole, beside times of four digits; an interval never stands without its time."""
    name = "conv2d_weight_gradient"
    run = OperatorRun(tmp_path / "run", name, devices=gpus(2), launches=3)
    for number in range(3):
        for cell in run.operators:
            factor = 7.1234 * (1 + number / 20) if cell.compiles else 1.0
            shapes = [right(shape, pure_ms * factor * 0.12345) for shape, pure_ms in SHAPES.items()]
            run.did(cell, *shapes, number=number)
    run.finish()
    made = reporting.make_all(run.paths)
    text = render(made.report, ReportFormat.TXT, **made.given).decode()
    brief = to_brief(made.report, made.layout)
    for lines, rows in ((text.splitlines(), 5 + 12), (brief.splitlines(), 3)):
        assert max(map(len, lines)) <= 80
        assert sum(line.split()[:3] in (["GPU", "0", name], ["GPU", "1", name]) for line in lines) == rows
        (header,) = (line.split() for line in lines if "Speed" in line and "Pure ms" in line)
        assert [before for before, word in pairwise(header) if word == "+/-"] == ["ms"]


@pytest.mark.parametrize(
    ("launches", "calls", "over", "percent"),
    [
        (1, 3, IntervalOver.CALLS, None),
        (2, 40, IntervalOver.CALLS, 0.0),
        (3, 3, IntervalOver.LAUNCHES, 2.5),
    ],
)
def test_times_have_an_interval(
    tmp_path: Path, launches: int, calls: int, over: IntervalOver, percent: float | None
) -> None:
    """Over the launches from three on; else within a launch of enough calls."""
    run = OperatorRun(tmp_path / "run", "add", launches=launches)
    for number in range(launches):
        run.did(run.operators[0], *(right(name, 1 + number / 100, calls) for name in SHAPES), number=number)
    report = run.ended()
    assert report.operators is not None
    times = report.operators.rows[0].times
    assert {time.interval_over for time in times.values()} == {over}
    assert [times[name].interval_percent for name in TimeName] == [pytest.approx(percent, abs=0.1)] * 4
    assert len(times[TimeName.PURE].launch_values) == launches
