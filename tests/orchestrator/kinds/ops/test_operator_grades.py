"""Grades of operators, and what to do about them."""

import pytest
from msgspec.structs import replace

from orchestrator.figures.operators import Grade, IntervalOver, OperatorRow, OperatorStatus, OperatorTime, TimeName
from orchestrator.kinds.ops.analysis import graded
from orchestrator.kinds.ops.chapter import _categories


def time(call_ms: float, percent: float | None) -> OperatorTime:
    calls = IntervalOver.CALLS
    return OperatorTime(call_ms=call_ms, launch_values=(call_ms,), interval_percent=percent, interval_over=calls)


def row(
    implementation: str,
    pure_ms: float | None,
    status: OperatorStatus = OperatorStatus.OK,
    percent: float | None = None,
) -> OperatorRow:
    return OperatorRow(
        cell="softmax",
        gpu_uuid="GPU-1",
        operator="softmax",
        category="normalisation",
        implementation=implementation,
        precision="fp32",
        mode="loaded",
        shape="small",
        sizes="n=1",
        status=status,
        reason="",
        deviation=0.0,
        tolerance=1.0,
        gradient_verified=True,
        times={} if pure_ms is None else {name: time(pure_ms, percent) for name in (TimeName.PURE, TimeName.REAL)},
    )


@pytest.mark.parametrize(
    ("pure_ms", "percent", "grade"),
    [
        (0.5, 200, Grade.EXCELLENT),
        (1.1, 90.9, Grade.EXCELLENT),
        (1.25, 80, Grade.GOOD),
        (1.8, 55.6, Grade.FAIR),
        (4.0, 25, Grade.POOR),
        (10.0, 10, Grade.CRITICAL),
    ],
)
def test_grades_follow_the_speed_of_eager(pure_ms: float, percent: float, grade: Grade) -> None:
    """Five grades, from 90, 70, 50 and 20 percent on. Slow implementations get advice."""
    eager, mine = graded([row("eager", 1.0), row("mine", pure_ms)])
    assert (eager.grade, mine.grade) == (None, grade)
    assert mine.eager_percent == pytest.approx(percent, abs=0.1)
    assert ("eager" in mine.advice) is (grade is not Grade.EXCELLENT)


@pytest.mark.parametrize(("eager", "mine", "judged"), [(49.0, 49.0, True), (51.0, 1.0, False), (1.0, 51.0, False)])
def test_a_time_that_varies_too_much_judges_nothing(eager: float, mine: float, *, judged: bool) -> None:
    """Neither has the other a grade, if the time of one of them varies by half."""
    rows = tuple(graded([row("eager", 1.0, percent=eager), row("mine", 10.0, percent=mine)]))
    assert (rows[1].grade is not None, rows[1].eager_percent is not None) == (judged, judged)
    assert ["again" in one.advice for one in rows] == [eager > 50, mine > 50]


def test_a_slow_backward_pass_is_advised_against() -> None:
    """The grade is that of the forward pass, which is as fast as in eager."""
    eager, mine = row("eager", 1.0), row("mine", 1.0)
    with_backward = [
        replace(one, times=one.times | {TimeName.PURE_BACKWARD: time(pure_ms, 1.0)})
        for one, pure_ms in ((eager, 2.0), (mine, 9.0))
    ]
    found = tuple(graded(with_backward))[1]
    assert found.grade is Grade.EXCELLENT
    assert found.eager_backward_percent == pytest.approx(22.2, abs=0.1)
    assert "training" in found.advice


def test_a_wrong_result_has_neither_speed_nor_grade() -> None:
    """It counts against the share of right shapes."""
    rows = tuple(graded([row("eager", 1.0), row("mine", None, OperatorStatus.WRONG)]))
    assert (rows[1].eager_percent, rows[1].grade) == (None, None)
    assert [entry[2] for entry in _categories(rows).rows] == ["1/1", "0/1"]
