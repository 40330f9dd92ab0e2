"""Comparisons, baselines and thresholds of runs of operators."""

from pathlib import Path

import pytest

from orchestrator.compare import baselines, comparison, run_figures, thresholds
from orchestrator.compare.comparison import FAIL_ON, Comparison
from orchestrator.compare.thresholds import Threshold
from orchestrator.config import margins
from orchestrator.figures.comparisons import Met
from orchestrator.figures.operators import TimeName
from orchestrator.figures.report import Report
from orchestrator.figures.table import LimitName
from orchestrator.history import entry
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from protocol.result import ShapeResult
from tests.fakes.operator_runs import OperatorRun, right, wrong

SHAPES = ("small", "medium", "large")
NOISE = (1.0, 1.001, 0.999)


def report(folder: Path, *, slow: float = 1.0, large: ShapeResult | None = None) -> Report:
    """softmax, three launches: `slow` where compiled. large: what becomes of the large shape in eager."""
    run = OperatorRun(folder, "softmax", launches=len(NOISE), run_id=f"20240115-103000-{folder.name}")
    for number, noise in enumerate(NOISE):
        for cell in run.operators:
            shapes = [right(name, noise * (slow if cell.compiles else 1.0)) for name in SHAPES]
            if large is not None and not cell.compiles:
                shapes[2] = large
            run.did(cell, *shapes, number=number)
    run.samples()
    return run.ended()


def compared(before: Report, after: Report) -> Comparison:
    sides = run_figures.of_report(before, "before"), run_figures.of_report(after, "after")
    return comparison.compare(*sides, margins.load())


def of_operators(found: Comparison, **wanted: str) -> list[ChangeVerdict]:
    cells = (cell for cell in found.cells if cell.phase == Workload.OPERATOR)
    return [cell.verdict for cell in cells if all(getattr(cell, name) == value for name, value in wanted.items())]


def test_every_time_of_every_shape_is_compared(tmp_path: Path) -> None:
    """By implementation, shape and time; what is slower is named, and ends with 1."""
    found = compared(report(tmp_path / "aaaaaa"), report(tmp_path / "bbbbbb", slow=1.5))
    assert len(of_operators(found)) == 2 * len(SHAPES) * len(TimeName)
    assert set(of_operators(found, implementation="compiled", time="pure")) == {ChangeVerdict.SLOWER}
    assert not {*of_operators(found, implementation="eager")} & FAIL_ON
    assert len({cell.cell for cell in found.cells}) == len(found.cells)
    assert comparison.exit_code([found], FAIL_ON) is ExitCode.MISSED


def test_a_result_that_is_wrong_since_is_a_regression(tmp_path: Path) -> None:
    """It has no speed, and is no cell that cannot be compared. What was wrong before is none."""
    good, bad = report(tmp_path / "aaaaaa"), report(tmp_path / "bbbbbb", large=wrong("large"))
    found = compared(good, bad)
    assert set(of_operators(found, implementation="eager", shape="large")) == {ChangeVerdict.WRONG}
    assert comparison.exit_code([found], FAIL_ON) is ExitCode.MISSED
    assert ChangeVerdict.WRONG not in of_operators(compared(bad, bad))
    assert ChangeVerdict.WRONG not in of_operators(compared(bad, good))


def test_a_baseline_holds_operators(tmp_path: Path) -> None:
    """Without wrong results; a run is compared with its times."""
    bad = run_figures.of_report(report(tmp_path / "aaaaaa", large=wrong("large")), "bad")
    baseline = baselines.reduced(bad, "baseline")
    assert len(baseline.cells) == len(TimeName) * (2 * len(SHAPES) - 1)
    held = baselines.hold(run_figures.of_report(report(tmp_path / "bbbbbb", slow=2.0), "run"), baseline)
    slow = {key.time: ratio for (_, key), ratio in held.by_device.items() if key.implementation == "compiled"}
    assert slow == {name: pytest.approx(0.5, rel=0.01) for name in TimeName}


@pytest.mark.parametrize(
    ("narrowed", "count", "status"),
    [
        ({}, 24, {Met.MISSED}),
        ({"models": ("softmax",), "times": ("pure",)}, 6, {Met.MISSED}),
        ({"implementations": ("eager",), "shapes": ("small", "large")}, 8, {Met.MISSED}),
        ({"models": ("add",)}, 1, {Met.NOT_MEASURED}),
    ],
)
def test_a_threshold_names_operators(
    tmp_path: Path, narrowed: dict[str, tuple[str, ...]], count: int, status: set[Met]
) -> None:
    """By name, implementation, shape and time."""
    limit = Threshold(name="fast", figure=LimitName.CALL_TIME, phase=Workload.OPERATOR, below=0.5, **narrowed)
    assert not thresholds.mistake(limit)
    assert not thresholds.pointless(limit)
    found = list(thresholds.judge(report(tmp_path / "aaaaaa"), [limit], None))
    assert (len(found), {one.status for one in found}) == (count, status)


def test_only_operators_have_shapes() -> None:
    """A limit of a model that names one is refused."""
    limit = Threshold(name="x", figure=LimitName.LATENCY, phase=Workload.INFERENCE, below=1, shapes=("small",))
    assert thresholds.mistake(limit)


def test_the_history_has_each_time(tmp_path: Path) -> None:
    """In the order of the comparison, with its value."""
    found = entry.of_report(report(tmp_path / "aaaaaa"), tmp_path, tainted=False)
    cells = [cell for cell in found.cells if cell.key.phase is Workload.OPERATOR]
    assert [cell.figures["call_ms"] for cell in cells if cell.key.time == "real"] == [pytest.approx(2, rel=0.01)] * 6
