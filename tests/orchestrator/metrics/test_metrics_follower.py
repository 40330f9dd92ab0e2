"""What is remembered of a run for the metrics, and that the display of people is told all the same."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.engine.display_events import CellEnded, Notice, Snapshot
from orchestrator.metrics.follower import Follower
from orchestrator.metrics.run_view import RunStands
from protocol.failure import Category
from tests.fakes import faults
from tests.fakes.runs import FakeRun
from tests.fakes.steps import failure

SNAPSHOT = Snapshot(devices=(), done=1, total=2, share=0.5, failed=0, elapsed_s=1.0, eta_s=None)


class People:
    """A display that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def show(self, snapshot: Snapshot) -> None:
        """As a display."""
        self.seen.append(snapshot)

    def tell(self, event: CellEnded | Notice) -> None:
        """As a display."""
        self.seen.append(event)

    def close(self) -> None:
        """As a display."""
        self.seen.append("closed")


@pytest.fixture
def people() -> People:
    """Whoever looks at the run."""
    return People()


@pytest.fixture
def follower(tmp_path: Path, people: People) -> Follower:
    """Of a run of one cell."""
    return Follower(faults.prepare(tmp_path / "run", faults.model("a")), people)


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


def test_everything_is_passed_on(follower: Follower, people: People) -> None:
    """In the order in which it was told."""
    told = (ended(follower), Notice(level="info", message="m"))
    follower.show(SNAPSHOT)
    for one in told:
        follower.tell(one)
    follower.close()
    assert people.seen == [SNAPSHOT, *told, "closed"]
    assert follower.view().snapshot == SNAPSHOT


def test_figures_are_those_of_the_last_good_launch(follower: Follower) -> None:
    """A failure changes none, and is counted; in base units."""
    follower.tell(ended(follower))
    follower.tell(ended(follower, failed=Category.CRASHED, again=True))
    seen = follower.view()
    (figure,) = seen.figures.values()
    assert (figure.model, figure.label, figure.uuid, figure.mode) == ("a", "cpu:0", "cpu:0", "solo")
    assert figure.batch_size == 1
    assert (figure.iteration_s, figure.items_per_second) == (pytest.approx(0.02), 50.0)
    assert (seen.failures, seen.retries) == ({Category.CRASHED: 1}, 1)


def test_a_result_that_is_taken_back_has_no_figures(follower: Follower) -> None:
    """It counts as a failure, of the kind that it was taken back for."""
    follower.tell(ended(follower))
    (cell,) = follower.view().figures
    fields = {"cell_id": cell, "category": Category.THROTTLED, "again": True}
    follower.tell(Notice(level="warning", message="m", event="result_withdrawn", fields=fields))
    seen = follower.view()
    assert (seen.figures, seen.failures, seen.retries) == ({}, {Category.THROTTLED: 1}, 1)


def test_a_result_that_is_taken_back_leaves_those_before_it(follower: Follower) -> None:
    """Two good launches, of which the second is withdrawn: the figures are those of the first."""
    follower.tell(ended(follower))
    follower.tell(msgspec.structs.replace(ended(follower), items_per_second=9.0))
    (cell,) = follower.view().figures
    fields = {"cell_id": cell, "category": Category.THROTTLED, "again": True}
    follower.tell(Notice(level="warning", message="m", event="result_withdrawn", fields=fields))
    assert follower.view().figures[cell].items_per_second == 50.0


@pytest.mark.parametrize(("verdict", "stands"), [("complete", RunStands.OVER), (None, RunStands.BROKEN_OFF)])
def test_the_end_of_the_run_is_heard(follower: Follower, verdict: str | None, stands: RunStands) -> None:
    """Without a report it has broken off."""
    assert follower.view().stands is RunStands.RUNNING
    fields = {"verdict": verdict, "exit_code": 4}
    follower.tell(Notice(level="info", message="m", event="run_ended", fields=fields))
    assert (follower.view().stands, follower.view().exit_code) == (stands, 4)


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


def test_a_view_does_not_change_once_it_is_asked_for(follower: Follower) -> None:
    """Another thread reads it while the run goes on."""
    before = follower.view()
    follower.tell(ended(follower))
    follower.tell(ended(follower, failed=Category.CRASHED))
    assert (before.figures, before.failures) == ({}, {})
