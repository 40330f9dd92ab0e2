"""What a row of the report is worth."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.cells import PhaseMetrics, Status
from orchestrator.figures.quality import LIMIT_PERCENT, POWER_SETTLES_S, Quality, is_steady, quality
from protocol.result import SteadyState
from tests.fakes.runs import FakeRun


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> PhaseMetrics:
    run = FakeRun(tmp_path_factory.mktemp("run"), batch_sizes=(8,))
    run.everything()
    return run.ended().results[0].inference_metrics["batch_size_8"]


BEYOND = LIMIT_PERCENT * 1.01


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Quality.OK),
        ({"drift_percent": LIMIT_PERCENT, "relative_half_width": LIMIT_PERCENT / 100}, Quality.OK),
        ({"contaminated": True, "throttled": True}, Quality.CONTAMINATED),
        ({"throttled": True, "launch_bound": True}, Quality.THROTTLED),
        ({"launch_bound": True, "steady_state": SteadyState.NONE}, Quality.HOST_BOUND),
        ({"steady_state": SteadyState.NONE}, Quality.UNSETTLED),
        ({"drift_percent": -BEYOND, "relative_half_width": 0.5}, Quality.UNSETTLED),
        ({"sm_clock_drift_percent": -1.1}, Quality.UNSETTLED),
        ({"power_capped_percent": 51.0, "measured_seconds": 1.5}, Quality.UNSETTLED_POWER),
        ({"power_capped_percent": 51.0, "measured_seconds": POWER_SETTLES_S}, Quality.OK),
        ({"power_capped_percent": 49.0, "measured_seconds": 1.5}, Quality.OK),
        ({"power_capped_percent": 51.0, "steady_state": SteadyState.FIXED}, Quality.UNSETTLED_POWER),
        ({"power_capped_percent": 51.0, "launch_bound": None}, Quality.UNSETTLED_POWER),
        ({"clock_event_reasons": ("software power cap",), "launch_bound": None}, Quality.UNSETTLED_POWER),
        ({"relative_half_width": BEYOND / 100}, Quality.NOISY),
        ({"launch_spread_percent": 5.1}, Quality.NOISY),
        ({"relative_half_width": BEYOND / 100, "steady_state": SteadyState.NOT_SOUGHT}, Quality.OK),
    ],
)
def test_the_cause_of_a_doubt_is_the_quality(good: PhaseMetrics, changes: dict[str, object], expected: Quality) -> None:
    """A cause comes before its effects, and everything but OK is in doubt."""
    changed = msgspec.structs.replace(good, **changes)
    found = quality(Status.OK, changed)
    assert (found, found.is_doubtful) == (expected, expected is not Quality.OK)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_a_cell_that_is_not_ok_is_called_by_its_status(good: PhaseMetrics, status: Status) -> None:
    """Whatever its figures are."""
    assert quality(status, good) == quality(status, None) == status.replace("_", " ")


@pytest.mark.parametrize(
    ("state", "percent", "steady"),
    [
        (SteadyState.REACHED, 3.0, True),
        (SteadyState.NONE, 0.1, False),
        (SteadyState.FIXED, 1.9, True),
        (SteadyState.FIXED, 2.1, False),
        (SteadyState.FIXED, None, True),
    ],
)
def test_noisy_times_after_a_fixed_warm_up_are_not_steady(
    state: SteadyState, percent: float | None, *, steady: bool
) -> None:
    """Nobody looked whether they had settled."""
    assert is_steady(state, None if percent is None else percent / 100) is steady


def test_the_report_has_the_quality_of_each_cell(tmp_path: Path) -> None:
    """One field of each planned cell, with or without figures."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(), launch_bound=True)
    report = run.ended()
    assert [one.quality for one in report.cells] == [Quality.HOST_BOUND, Quality.MISSING]
