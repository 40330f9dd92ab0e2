"""The orchestrator killed at random moments: what was finished is kept exactly once, what was not is measured."""

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.state.failure_policy import POLICY
from orchestrator.store import journal
from orchestrator.store.records import End, Record, Segment, Spawned, Start
from protocol.failure import Category, Phase
from tests.e2e.chaos import traces
from tests.fakes import faults
from tests.fakes.node import NOTHING, Node, leftovers

KILLS = 20
HITS = 15
"""Of them, with a launch under way: a device is without one between two launches, and both may be so at one time."""
CELLS = 180
"""More than the lives before the last one have time for."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for all that a run makes, with a short path, because its sockets lie there."""
    with tempfile.TemporaryDirectory(prefix="killed-", dir="/tmp") as folder:
        for name in ("tmp", "runtime"):
            (Path(folder) / name).mkdir(mode=0o700)
        yield Path(folder)


def is_alive(process: psutil.Process) -> bool:
    """Whether it still does anything: in a container there may be nobody to reap the dead."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class AtWork:
    """Whether so many launches of this life are over, and a process of another was made. Reads what has changed."""

    def __init__(self, node: Node, over: int) -> None:
        self._node = node
        self._over = over
        self._seen = 0

    def __call__(self) -> bool:
        """Look."""
        size = journal.length(self._node.paths.journal)
        if size == self._seen:
            return False
        self._seen, own = size, lived(self._node)
        made = {record.launch for record in own if isinstance(record, Spawned)}
        return len(ended(own)) >= self._over and bool(made - ended(own))


def lived(node: Node) -> list[Record]:
    """What the journal holds of this very process."""
    own: list[Record] = []
    for record in node.records():
        if isinstance(record, Segment):
            own = []
        own += [record] if own or (isinstance(record, Segment) and record.pid == node.process.pid) else []
    return own


def ended(records: list[Record]) -> set[int]:
    """The launches that are over."""
    return {record.launch for record in records if isinstance(record, End)}


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


def test_what_failed_for_good_is_not_left_without_a_word(tmp_path: Path) -> None:
    """Who resumes such a run wants it measured: that `resume` does not, and what would, is said."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"), faults.model("bad", do="raise"))
    assert Node(folder).wait() == 4
    again = Node(folder)
    assert again.wait() == 4, again.output
    assert "nothing left to do" in again.output
    told = " ".join(again.output.split())
    assert "1 cell failed for good, and `resume` tries nothing of that again" in told
    assert f"`gpubench-orchestrate explain {folder}` says why" in told
    assert len(again.archive().segments) == 1


def test_an_interrupted_attempt_names_the_phase_that_it_had_reached(tmp_path: Path) -> None:
    """The worker wrote it down before it was killed with its orchestrator."""
    folder, told, once = tmp_path / "run", tmp_path / "told", tmp_path / "once"
    hangs = {"do": "hang", "in": "measure", "told": str(told), "once": str(once)}
    faults.prepare(folder, faults.model("slow", **hangs))
    node = Node(folder)
    node.until(told.exists)
    node.kill(signal.SIGKILL)
    node.wait()
    again = Node(folder)
    assert again.wait() == 0, again.output
    [cut_short, _] = again.archive().attempts
    assert cut_short.failure is not None
    assert (cut_short.failure.category, cut_short.failure.phase) == (Category.INTERRUPTED, Phase.MEASURE)


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
    """A folder that holds another plan than the journal was begun with is not continued."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    assert Node(folder).wait() == 0
    faults.prepare(tmp_path / "other", faults.model("another"))
    (folder / "plan.json").write_bytes((tmp_path / "other" / "plan.json").read_bytes())
    node = Node(folder)
    assert node.wait() == 2
    assert "plan" in node.output


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: os.truncate(path, 3)], ids=["gone", "cut"])
def test_a_result_that_is_gone_is_measured_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A result file that was deleted or damaged after its run is noticed by resume, and made anew."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"), faults.model("other"))
    assert Node(folder).wait() == 0
    damage(next(folder.glob("launches/good*/1/result.msgpack")))
    again = Node(folder)
    assert again.wait() == 0, again.output
    assert again.report()["summary"]["cells"]["ok"] == 2
    assert len(again.archive().attempts) == 3


def test_a_copy_leaves_the_report_of_the_original_alone(tmp_path: Path) -> None:
    """What is resumed in a copy is told there, and nowhere else; a run that was moved publishes as it was asked to."""
    folder, copied, moved = tmp_path / "run", tmp_path / "copy", tmp_path / "moved"
    faults.prepare(folder, faults.model("good"), faults.model("bad", do="raise"))
    assert Node(folder).wait() == 4
    published = folder / "out" / "report.json"
    told = published.read_bytes()
    shutil.copytree(folder, copied)
    next(copied.glob("launches/good*/1/result.msgpack")).unlink()
    (copied / "report.json").unlink()
    again = Node(copied)
    assert again.wait() == 4, again.output
    assert f"this folder is a copy of {folder}: its report is written into it alone" in again.output
    assert published.read_bytes() == told
    assert list(published.parent.glob("report.1*")) == []
    assert len(json.loads((copied / "report.json").read_text())["metadata"]["segments"]) == 2
    assert f"{copied}/report.json" in again.output.splitlines()[-1]
    folder.rename(moved)
    next(moved.glob("launches/good*/1/result.msgpack")).unlink()
    last = Node(moved)
    assert last.wait() == 4, last.output
    assert f"this run was begun in {folder}; its report is written into this folder, and to {published}" in last.output
    assert json.loads(published.read_text()) == json.loads((moved / "report.json").read_text())


def test_results_that_the_journal_knows_nothing_of_are_not_overwritten(tmp_path: Path) -> None:
    """Deleted, emptied or cut off wherever it loses a start: refused before anything else is said or done."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"), faults.model("other"))
    assert Node(folder).wait() == 0
    journal_file = folder / "journal.gpj"
    whole = journal_file.read_bytes()
    last_start = whole.rindex(b"\xa5Start")
    for left, lost in ((None, 2), (0, 2), (5, 2), (200, 2), (whole.index(b"\xa5Start"), 2), (last_start, 1)):
        journal_file.unlink(missing_ok=True)
        if left is not None:
            journal_file.write_bytes(whole[:left])
        before = contents(folder)
        again = Node(folder)
        assert again.wait() == 2, (left, again.output)
        assert again.output.startswith(f"error: {journal_file} is missing, empty or cut short: launches/ holds results")
        assert f"({lost} of 2, the first in {folder}/launches/" in again.output
        assert again.output.count("\n") == 1, again.output
        assert contents(folder) == before, left


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file in a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_result_whose_end_was_being_written_is_measured_again_beside_it(tmp_path: Path) -> None:
    """What a kill leaves, a start without an end, is gone on with: the next attempt has a folder of its own."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    assert Node(folder).wait() == 0
    [result] = folder.glob("launches/good*/1/result.msgpack")
    measured, journal_file = result.read_bytes(), folder / "journal.gpj"
    whole = journal_file.read_bytes()
    journal_file.write_bytes(whole[: whole.rindex(b"\xa3End")])
    again = Node(folder)
    assert again.wait() == 0, again.output
    assert [one.promised is None for one in again.archive().attempts] == [True, False]
    assert result.read_bytes() == measured


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_random_moments_nothing_is_lost(place: Path, seed: int) -> None:
    """Twenty SIGKILLs of the orchestrator, then resume: each result kept once, no cell missing, nothing left.

    A kill comes when so many launches of that life are over and a process of another was made, and then a while later,
    so that a slow machine is killed at work too. Cells are short: none is interrupted so often that it is given up.
    """
    moments, shared = random.Random(seed), traces.shared_memory()
    environment = {"TMPDIR": f"{place}/tmp", "XDG_RUNTIME_DIR": f"{place}/runtime", traces.MARK: str(place)}
    folder = place / "run"
    models = [faults.model(f"model{number}", seconds=0.15) for number in range(CELLS // 2)]
    faults.prepare(folder, *models, faults.model("bad", do="raise"), devices=2)
    kept: dict[int, str] = {}
    open_: list[int] = []
    hits = 0
    for _ in range(KILLS):
        node = Node(folder, environment=environment)
        node.until(AtWork(node, moments.randrange(8)))
        time.sleep(moments.uniform(0, 0.3))
        node.kill(signal.SIGKILL)
        node.wait()
        own = lived(node)
        under_way = {record.launch for record in own if isinstance(record, Start)} - ended(own)
        open_ += under_way
        hits += any(isinstance(record, Spawned) and record.launch in under_way for record in own)
        results = {
            end.launch: end.result_sha256 for end in node.records() if isinstance(end, End) and end.result_sha256
        }
        assert kept.items() <= results.items(), "a result that was finished is gone"
        kept = results
    assert hits >= HITS, "the kills came between the launches"
    last = Node(folder, environment=environment)
    assert last.wait() == 4, last.output
    archive = last.archive()
    interrupted = [one for one in archive.attempts if one.failure and one.failure.category is Category.INTERRUPTED]
    assert sorted(one.start.launch for one in interrupted) == sorted(open_)
    others = [one.failure.category for one in archive.attempts if one.failure and one not in interrupted]
    assert others == [Category.EXCEPTION] * 2, "a result that was finished was taken back"
    most = max(Counter(one.start.cell for one in interrupted).values())
    assert most <= POLICY[Category.INTERRUPTED].retries, "a cell was given up: cells are too long for this machine"
    measured = Counter((one.start.cell, one.start.round) for one in archive.attempts if one.promised)
    assert set(measured.values()) == {1}, "a finished cell was measured again"
    assert len(measured) == CELLS
    for one in archive.attempts:
        if one.promised:
            archive.result(one)
    counts = last.report()["summary"]["cells"]
    assert (counts["missing"], counts["failed"]) == (0, 2)
    assert len(archive.segments) == KILLS + 1
    assert traces.left(place, folder, shared) == []


def test_workers_die_with_their_orchestrator(tmp_path: Path) -> None:
    """One that hangs, deaf to SIGTERM, is killed by the kernel: nobody has to come and resume the run for that."""
    folder, told = tmp_path / "run", tmp_path / "told"
    faults.prepare(folder, faults.model("slow", do="hang, deaf to SIGTERM", told=str(told)))
    node = Node(folder)
    node.until(lambda: node.working("slow") and told.exists())
    worker, zygote = node.worker("slow"), node.zygote()
    node.kill(signal.SIGKILL)
    node.wait()
    give_up = time.monotonic() + 8
    while alive := [one for one in (worker, zygote) if is_alive(one)]:
        if time.monotonic() > give_up:
            break
        time.sleep(0.05)
    for one in alive:
        one.kill()
    assert alive == []


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
