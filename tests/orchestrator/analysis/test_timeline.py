"""What happened when: launches and readings on one time axis, as few as can be seen, and no failure lost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.timeline import MOST_FAILED, merge_spans
from orchestrator.figures.timeline import Span, Timeline
from orchestrator.run_reports import reporting
from protocol.cell import AUTO
from protocol.failure import Category
from tests.fakes.runs import SECOND_NS, FakeRun, gpus


def timeline_of(run: FakeRun) -> Timeline:
    """Return the timeline of the files on disk."""
    return reporting.make_all(run.paths).timeline


def test_launches_and_readings_share_their_time(tmp_path: Path) -> None:
    """Seconds since the run began: a launch lies among the readings that were taken during it."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    launch = run.now_ns
    run.measured(run.cell())
    run.samples()
    run.finish()
    (device,) = timeline_of(run).devices
    (span,), (stretch,) = device.spans, device.stretches
    assert (span.words, span.workload, span.failed) == ("resnet50 inference fp32 b1", "inference", False)
    assert span.end_s - span.start_s == pytest.approx((run.now_ns - launch) / 1e9, abs=0.2)
    assert stretch.at_s[0] < span.start_s < span.end_s < stretch.at_s[-1]
    assert 0 <= span.start_s < 10
    assert stretch.curves["temperature_c"].mean[0] == 61.0


def test_a_reboot_does_not_turn_time_back(tmp_path: Path) -> None:
    """Monotonic time begins anew with each boot; on the page the second boot comes after the first."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.segment(boot_id="another", now_ns=5 * SECOND_NS)
    run.measured(run.cell(batch_size=8))
    run.finish()
    first, second = timeline_of(run).devices[0].spans
    assert 0 <= first.start_s < first.end_s <= second.start_s < 60


def test_a_launch_without_a_result_is_marked(tmp_path: Path) -> None:
    """A failed one, and one whose end nobody wrote, which has no length."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1, 8))
    run.failed(run.cell(batch_size=1), Category.EXCEPTION)
    run.interrupted(run.cell(batch_size=8))
    run.measured(run.cell(batch_size=1, device=1))
    run.finish()
    failed, other = timeline_of(run).devices
    assert [(span.failed, span.end_s > span.start_s) for span in failed.spans] == [(True, True), (True, False)]
    assert [span.failed for span in other.spans] == [False]


def test_what_a_scan_was_told_is_no_failure(tmp_path: Path) -> None:
    """A batch size that is too large is the answer to a scan: as in the report, nothing failed."""
    run = FakeRun(tmp_path, batch_sizes=(AUTO,))
    (cell,) = run.stored.plan.cells
    run.measured(cell, batch_size=1)
    run.failed(cell, Category.OUT_OF_MEMORY, batch_size=2)
    assert run.ended().failures == ()
    (device,) = timeline_of(run).devices
    assert [(span.failed, span.words[-2:]) for span in device.spans] == [(False, "b1"), (False, "b2")]


def test_of_endless_failures_the_rest_is_counted(tmp_path: Path) -> None:
    """So many stand for themselves; how many more there were is said."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    for _ in range(MOST_FAILED + 7):
        run.failed(run.cell(), Category.EXCEPTION)
    run.finish()
    (device,) = timeline_of(run).devices
    assert (len(device.spans), device.unseen) == (MOST_FAILED, 7)


lengths = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=80)


@given(lengths, st.integers(2, 20))
def test_taken_together_they_cover_what_they_covered(starts: list[float], most: int) -> None:
    """At most so many, in order, from the first beginning to the last end; what is alone stays as it is."""
    spans = [Span(start, start + 1, "load", failed=False, words="cell") for start in sorted(starts)]
    made = list(merge_spans(spans, most))
    assert len(made) <= most
    assert [span.start_s for span in made] == sorted(span.start_s for span in made)
    assert (made[0].start_s, made[-1].end_s) == (spans[0].start_s, spans[-1].end_s)
    if len(spans) <= most:
        assert made == spans


def test_what_was_taken_together_says_what_it_was() -> None:
    """The number of launches and their kinds; of several kinds it is none of them."""
    spans = [Span(at, at + 0.1, kind, failed=False, words="cell") for at, kind in ((0, "a"), (0.1, "a"), (9, "b"))]
    first, last = merge_spans(spans, 2)
    assert (first.words, first.workload, last.words) == ("2 launches: a", "a", "cell")
    spans = [Span(at, at + 0.1, kind, failed=False, words="cell") for at, kind in ((0, "a"), (0.1, "b"), (9, "b"))]
    assert [(span.words, span.workload) for span in merge_spans(spans, 2)] == [("2 launches: a, b", ""), ("cell", "b")]
