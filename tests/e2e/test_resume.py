"""The orchestrator killed at random moments: what was finished is kept exactly once, what was not is measured."""

import contextlib
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.disk.records import End
from tests.fakes import faults
from tests.fakes.node import NOTHING, Node, leftovers

KILLS = 20


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    """Resuming a complete run measures nothing again, says so, and writes nothing."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    first = Node(folder)
    assert first.wait() == 0
    assert "importing torch" not in first.output
    again = Node(folder)
    assert again.wait() == 0, again.output
    assert len(again.archive().attempts) == 1
    assert len(again.archive().segments) == 1
    assert "nothing left to do" in again.output


def test_a_run_in_use_is_refused(tmp_path: Path) -> None:
    """Two processes never work on one run; the second says that and nothing else, and the first is not disturbed."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", seconds=1.5))
    first = Node(folder)
    first.until(lambda: first.working("slow"))
    second = Node(folder)
    assert second.wait() == 2
    assert second.output.startswith(f"error: {folder} is in use by another process. Wait until it has ended, or end it")
    assert second.output.count("\n") == 1
    assert first.wait() == 0, first.output


def test_another_plan_is_refused(tmp_path: Path) -> None:
    """A run.yaml that holds another plan than the journal was begun with is not continued."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    assert Node(folder).wait() == 0
    faults.prepare(tmp_path / "other", faults.model("another"))
    (folder / "run.yaml").write_bytes((tmp_path / "other" / "run.yaml").read_bytes())
    node = Node(folder)
    assert node.wait() == 2
    assert "plan" in node.output


def test_a_result_that_is_gone_is_measured_again(tmp_path: Path) -> None:
    """A result file that was deleted after its run is noticed by resume, and made anew."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"), faults.model("other"))
    assert Node(folder).wait() == 0
    next(folder.glob("launches/good*/1/result.msgpack")).unlink()
    again = Node(folder)
    assert again.wait() == 0, again.output
    assert again.report()["summary"]["cells"]["ok"] == 2
    assert len(again.archive().attempts) == 3


def test_results_without_a_journal_are_not_overwritten(tmp_path: Path) -> None:
    """A journal that was emptied or deleted is an error while there are results beside it."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    assert Node(folder).wait() == 0
    (folder / "journal.gpj").write_bytes(b"")
    again = Node(folder)
    assert again.wait() == 2
    assert "launches/ holds results" in again.output


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_random_moments_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    """Twenty SIGKILLs of the orchestrator, then resume: each result kept once, no cell missing, nothing left."""
    moments = random.Random(seed)
    folder = tmp_path / "run"
    models = [faults.model(f"model{number}", seconds=0.2) for number in range(30)]
    faults.prepare(folder, *models, faults.model("bad", do="raise"), devices=2)
    kept: dict[int, str] = {}
    for _ in range(KILLS):
        node = Node(folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.process.wait(timeout=moments.uniform(0.2, 1.6))
        node.kill(signal.SIGKILL)
        node.wait()
        results = {
            end.launch: end.result_sha256 for end in node.records() if isinstance(end, End) and end.result_sha256
        }
        assert kept.items() <= results.items(), "a result that was finished is gone"
        kept = results
    last = Node(folder)
    assert last.wait() == 4, last.output
    archive = last.archive()
    measured = Counter((one.start.cell, one.start.round) for one in archive.attempts if one.promised)
    assert set(measured.values()) == {1}, "a finished cell was measured again"
    assert len(measured) == 60
    for one in archive.attempts:
        if one.promised:
            archive.result(one)
    counts = last.report()["summary"]["cells"]
    assert (counts["missing"], counts["failed"]) == (0, 2)
    assert len(archive.segments) <= KILLS + 1
    assert leftovers(folder) == NOTHING


def test_one_signal_ends_gently(tmp_path: Path) -> None:
    """SIGTERM: what runs may end, nothing new begins, the report is written, and resume does the rest."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", seconds=1.0), faults.model("other", seconds=1.0))
    node = Node(folder)
    node.until(lambda: bool(node.records()) and (node.working("slow") or node.working("other")))
    node.kill(signal.SIGTERM)
    assert node.wait(timeout_s=20) == 4, node.output
    counts = node.report()["summary"]["cells"]
    assert (counts["ok"], counts["missing"]) == (1, 1)
    assert leftovers(folder) == NOTHING
    again = Node(folder)
    assert again.wait() == 0, again.output
    assert len(again.archive().attempts) == 2


@pytest.mark.slow
def test_a_gentle_stop_ends_within_twenty_seconds(tmp_path: Path) -> None:
    """A launch that takes too long is ended; its cell is interrupted, not failed."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", do="hang, deaf to SIGTERM"))
    node = Node(folder)
    node.until(lambda: node.working("slow"))
    node.kill(signal.SIGINT)
    assert node.wait(timeout_s=20) == 4, node.output
    (attempt,) = node.archive().attempts
    assert attempt.failure is not None
    assert attempt.failure.category == "stopped on request"
    assert leftovers(folder) == NOTHING


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """The second Ctrl-C kills what runs; the report is written all the same. SIGHUP ends nothing."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", do="hang, deaf to SIGTERM"))
    node = Node(folder)
    node.until(lambda: node.working("slow"))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # two of one kind may reach a process as one
        node.kill(number)
    assert node.wait(timeout_s=8) == 4, node.output
    assert node.report()["summary"]["cells"]["missing"] == 1
    assert leftovers(folder) == NOTHING
