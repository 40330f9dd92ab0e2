"""Comparisons, baselines and thresholds of studies."""

from pathlib import Path

import pytest

from orchestrator.compare import baselines, comparison, run_figures, thresholds
from orchestrator.compare.comparison import FAIL_ON
from orchestrator.compare.thresholds import Threshold
from orchestrator.config import margins
from orchestrator.figures.comparisons import Met
from orchestrator.figures.report import Report
from orchestrator.figures.table import LimitName
from orchestrator.history import entry
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from tests.fakes.study_runs import StudyRun

NOISE = (1.0, 1.001, 0.999)
WRONG = {"wrong": "values deviate by 0.5, allowed 2e-05", "series": {}}


def report(folder: Path, *, slow: float = 1.0, wrong: bool = False) -> Report:
    """Softmax in two sizes, three launches: `slow` where compiled with r=64, wrong in eager with r=256."""
    run = StudyRun(folder, launches=len(NOISE), run_id=f"20240115-103000-{folder.name}")
    for number, noise in enumerate(NOISE):
        for cell in run.stored.plan.cells:
            factor = slow if cell.compiles and "r=64" in cell.model else 1.0
            changes = WRONG if wrong and "eager r=256" in cell.model else {}
            run.did(cell, noise * factor, number=number, **changes)
    run.samples()
    return run.ended()


def compared(before: Report, after: Report) -> comparison.Comparison:
    sides = run_figures.of_report(before, "before"), run_figures.of_report(after, "after")
    return comparison.compare(*sides, margins.load())


def test_the_slower_cell_is_named(tmp_path: Path) -> None:
    """By operation, implementation and sizes; no other cell is. Memory and compile time have no verdict."""
    found = compared(report(tmp_path / "aaaaaa"), report(tmp_path / "bbbbbb", slow=1.5))
    assert len(found.cells) == 2 * 3
    (slower,) = (cell for cell in found.cells if cell.verdict in FAIL_ON)
    assert (slower.verdict, slower.cell) == (ChangeVerdict.SLOWER, "softmax operator fp32 compiled r=64 c=1000")
    assert (slower.before, slower.after) == (pytest.approx(1.0, rel=0.01), pytest.approx(1.5, rel=0.01))
    assert slower.figures == {"peak memory, MB": (512.0, 512.0), "cold compilation, ms": (900.0, 900.0)}
    assert comparison.exit_code([found], FAIL_ON) is ExitCode.MISSED


def test_a_cell_that_is_wrong_since_is_a_regression(tmp_path: Path) -> None:
    """One that was wrong before is none."""
    good, bad = report(tmp_path / "aaaaaa"), report(tmp_path / "bbbbbb", wrong=True)
    found = compared(good, bad)
    assert [cell.shape for cell in found.cells if cell.verdict is ChangeVerdict.WRONG] == ["r=256 c=1000"]
    assert ChangeVerdict.WRONG not in {cell.verdict for cell in compared(bad, good).cells}


def test_a_baseline_holds_a_study(tmp_path: Path) -> None:
    """Without its wrong cells; a run is compared with its device times."""
    bad = run_figures.of_report(report(tmp_path / "aaaaaa", wrong=True), "bad")
    baseline = baselines.reduced(bad, "baseline")
    assert len(baseline.cells) == 2 * 3 - 1
    held = baselines.hold(run_figures.of_report(report(tmp_path / "bbbbbb", slow=2.0), "run"), baseline)
    ratios = {(key.implementation, key.shape): ratio for (_, key), ratio in held.by_device.items()}
    slow = ratios.pop(("compiled", "r=64 c=1000"))
    assert slow == pytest.approx(0.5, rel=0.01)
    assert list(ratios.values()) == [pytest.approx(1.0, rel=0.01)] * 4


@pytest.mark.parametrize(
    ("figure", "narrowed", "actual"),
    [
        (LimitName.CALL_TIME, {}, [1.0] * 6),
        (LimitName.CALL_TIME, {"implementations": ("jax",), "shapes": ("r=64 c=1000",)}, [1.0]),
        (LimitName.MEMORY, {}, [0.5] * 6),
        (LimitName.COLD_COMPILE, {}, [900.0] * 4),
    ],
)
def test_a_threshold_limits_cells_of_a_study(
    tmp_path: Path, figure: LimitName, narrowed: dict[str, tuple[str, ...]], actual: list[float]
) -> None:
    """Device time and peak memory of all, compile time of those that compile."""
    limit = Threshold(name="a limit", figure=figure, phase=Workload.OPERATOR, below=0.1, **narrowed)
    assert not thresholds.pointless(limit)
    found = list(thresholds.judge(report(tmp_path / "aaaaaa"), [limit], None))
    assert [one.actual for one in found] == [pytest.approx(one, rel=0.01) for one in actual]
    assert {one.status for one in found} == {Met.MISSED}


def test_the_history_has_each_cell(tmp_path: Path) -> None:
    """With its device time, memory and compile time."""
    found = entry.of_report(report(tmp_path / "aaaaaa"), tmp_path, tainted=False)
    (cell,) = (one for one in found.cells if (one.key.implementation, one.key.shape) == ("jax", "r=64 c=1000"))
    assert (cell.figures["peak_memory_mb"], cell.figures["compile_cold_ms"]) == (512.0, 900.0)
    assert len(cell.launches) == len(NOISE)
