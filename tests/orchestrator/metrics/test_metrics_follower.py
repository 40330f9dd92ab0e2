"""The state of a run for its metrics, and that every event reaches the display."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.engine.display_events import CellEnded, Notice, Snapshot
from orchestrator.metrics.follower import Follower
from orchestrator.metrics.run_view import RunState
from protocol.failure import Category
from tests.fakes import faults
from tests.fakes.displays import RecordingDisplay
from tests.fakes.runs import FakeRun
from tests.fakes.steps import failure

SNAPSHOT = Snapshot(devices=(), done=1, total=2, share=0.5, failed=0, elapsed_s=1.0, eta_s=None)


@pytest.fixture
def display() -> RecordingDisplay:
    """The display behind the follower."""
    return RecordingDisplay()


@pytest.fixture
def follower(tmp_path: Path, display: RecordingDisplay) -> Follower:
    """Of a run of one cell."""
    return Follower(faults.prepare(tmp_path / "run", faults.model("a")), display)


def ended(follower: Follower, *, failed: Category | None = None, again: bool = False) -> CellEnded:
    """A launch of the run's cell is over."""
    (cell,) = follower.cells
    return CellEnded(
        label="cpu:0",
        cell="a fault fp32",
        cell_id=cell,
        batch_size=1,
        attempt=1,
        summary="",
        iteration_ms=None if failed else 20.0,
        items_per_second=None if failed else 50.0,
        failure=None if failed is None else failure(failed),
        again=again,
    )


def test_every_event_is_passed_on(follower: Follower, display: RecordingDisplay) -> None:
    """In order."""
    events = (ended(follower), Notice(level="info", message="m"))
    follower.show(SNAPSHOT)
    for one in events:
        follower.tell(one)
    follower.close()
    assert display.given == [SNAPSHOT, *events, "closed"]
    assert follower.view().snapshot == SNAPSHOT


def test_figures_are_those_of_the_last_good_launch(follower: Follower) -> None:
    """A failure changes none, and is counted; in base units. A view does not change while another thread reads it."""
    before = follower.view()
    follower.tell(ended(follower))
    follower.tell(ended(follower, failed=Category.CRASHED, again=True))
    seen = follower.view()
    (figure,) = seen.figures.values()
    assert (figure.model, figure.label, figure.uuid, figure.mode) == ("a", "cpu:0", "cpu:0", "solo")
    assert figure.batch_size == 1
    assert (figure.iteration_s, figure.items_per_second) == (pytest.approx(0.02), 50.0)
    assert (seen.failures, seen.retries) == ({Category.CRASHED: 1}, 1)
    assert (before.figures, before.failures) == ({}, {})


def test_a_withdrawn_result_leaves_the_figures_before_it(follower: Follower) -> None:
    """It counts as a failure of the category for which it was withdrawn."""
    follower.tell(ended(follower))
    follower.tell(msgspec.structs.replace(ended(follower), items_per_second=9.0))
    (cell,) = follower.view().figures
    fields = {"cell_id": cell, "category": Category.THROTTLED, "again": True}
    for throughputs in ([50.0], []):
        follower.tell(Notice(level="warning", message="m", event="result_withdrawn", fields=fields))
        assert [figure.items_per_second for figure in follower.view().figures.values()] == throughputs
    assert (follower.view().failures, follower.view().retries) == ({Category.THROTTLED: 2}, 2)


@pytest.mark.parametrize(("verdict", "state"), [("complete", RunState.OVER), (None, RunState.BROKEN_OFF)])
def test_the_end_of_the_run(follower: Follower, verdict: str | None, state: RunState) -> None:
    """Without a report it has broken off."""
    assert follower.view().state is RunState.RUNNING
    fields = {"verdict": verdict, "exit_code": 4}
    follower.tell(Notice(level="info", message="m", event="run_ended", fields=fields))
    assert (follower.view().state, follower.view().exit_code) == (state, 4)


def test_verdicts_are_those_of_the_report(follower: Follower, tmp_path: Path) -> None:
    """Of each GPU and of the machine."""
    run = FakeRun(tmp_path / "fake")
    run.everything()
    run.finish()
    report = run.report()
    follower.judged(report)
    seen = follower.view()
    assert seen.health == {gpu.gpu_uuid: gpu.verdict for gpu in report.health.gpus} != {}
    assert (seen.node, seen.burn_in) == (report.health.node.verdict, {})
