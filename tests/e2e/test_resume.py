"""The orchestrator killed at random moments: what was finished is kept exactly once, what was not is measured."""

import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.commands import orchestrate
from orchestrator.state import archive
from orchestrator.state.failure_policy import POLICY
from orchestrator.store import journal
from orchestrator.store.journal_records import End, Record, Segment, Spawned, Start
from protocol.failure import Category, Phase
from protocol.paths import RunPaths
from tests.e2e.chaos import traces
from tests.fakes import faults
from tests.fakes.node import Node, start, works

SEED = 1
KILLS = 10
HITS = 7
"""Of them, with a launch under way: a device is without one between two launches, and both may be so at one time."""
CELLS = 90
"""More than the lives before the last one have time for."""
GOOD = ("good", "other", "third")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for all that a run makes, with a short path, because its sockets lie there."""
    with tempfile.TemporaryDirectory(prefix="killed-", dir="/tmp") as folder:
        for name in ("tmp", "runtime"):
            (Path(folder) / name).mkdir(mode=0o700)
        yield Path(folder)


def lived(node: Node) -> list[Record]:
    """What the journal holds of this very process."""
    records = node.records()
    begun = [at for at, one in enumerate(records) if isinstance(one, Segment) and one.pid == node.process.pid]
    return [*records[begun[-1] :]] if begun else []


def launches(records: list[Record], kind: type) -> set[int]:
    return {record.launch for record in records if isinstance(record, kind)}


def at_work(node: Node, over: int) -> Callable[[], bool]:
    """Whether so many launches of this life are over, and a process of another was made. Reads what has changed."""
    seen = 0

    def look() -> bool:
        nonlocal seen
        if (size := journal.length(node.paths.journal)) == seen:
            return False
        seen, own = size, lived(node)
        ended = launches(own, End)
        return len(ended) >= over and bool(launches(own, Spawned) - ended)

    return look


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that is over: three cells were measured, and one failed for good before the last of them."""
    models = (*(faults.model(name) for name in GOOD), faults.model("bad", do="raise"))
    node = start(tmp_path_factory.mktemp("finished") / "run", *models)
    node.ended(4)
    assert node.archive().attempts[-1].promised
    return node.paths.folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def refused(folder: Path) -> str:
    before = contents(folder)
    done = CliRunner().invoke(orchestrate, ["resume", str(folder)])
    assert done.exit_code == 2, done.output
    assert done.output.startswith("error: ")
    assert done.output.count("\n") == 1, done.output
    assert contents(folder) == before
    return done.output


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_finished_run_is_left_as_it_is(folder: Path) -> None:
    """Resuming it measures nothing again, writes nothing, and says what it does not try again, and where to look."""
    again = Node(folder)
    again.ended(4)
    assert len(again.archive().attempts) == len(GOOD) + 1
    assert len(again.archive().segments) == 1
    told = " ".join(again.output.split())
    assert re.search("none remaining .*1 cell failed", told)
    assert f"`gpubench-orchestrate explain {folder}`" in told


def test_another_plan_is_refused(folder: Path, tmp_path: Path) -> None:
    """A folder that holds another plan than the journal was begun with is not continued."""
    faults.prepare(tmp_path / "other", faults.model("another"))
    (folder / "plan.json").write_bytes((tmp_path / "other" / "plan.json").read_bytes())
    assert "plan" in refused(folder)


def test_results_without_their_journal_are_not_overwritten(folder: Path) -> None:
    """A journal that was deleted, emptied or cut off wherever it loses a start: the run is refused."""
    journal_file = folder / "journal.gpj"
    whole = journal_file.read_bytes()
    first, last = whole.index(b"\xa5Start"), whole.rindex(b"\xa5Start")
    every = len(GOOD)
    for left, lost in ((None, every), (0, every), (5, every), (200, every), (first, every), (last, 1)):
        journal_file.unlink(missing_ok=True)
        if left is not None:
            journal_file.write_bytes(whole[:left])
        told = refused(folder)
        assert told.startswith(f"error: {journal_file} "), left
        assert f" {lost} of {every} " in told, left
        assert f"(the first in {folder}/launches/" in told, left


def test_lost_results_are_measured_again(folder: Path) -> None:
    """A result file that is gone, one that was cut, and one whose end the journal lacks: each gets a new attempt."""
    measured = [one for one in archive.load(RunPaths(folder)).attempts if one.promised]
    *_, kept = results = [folder / "launches" / one.start.cell / "1" / "result.msgpack" for one in measured]
    results[0].unlink()
    os.truncate(results[1], 3)
    journal_file, before = folder / "journal.gpj", kept.read_bytes()
    whole = journal_file.read_bytes()
    journal_file.write_bytes(whole[: whole.rindex(b"\xa3End")])
    again = Node(folder)
    assert again.ended(4)["summary"]["cells"]["ok"] == len(GOOD)
    attempts = [one for one in again.archive().attempts if not one.start.cell.startswith("bad")]
    assert sorted(one.start.attempt for one in attempts) == [1] * len(GOOD) + [2] * len(GOOD)
    (unended,) = [one for one in attempts if one.start.cell == measured[-1].start.cell and one.start.attempt == 1]
    assert unended.promised is None
    assert kept.read_bytes() == before


def test_a_copy_leaves_the_report_of_the_original_alone(finished: Path, folder: Path) -> None:
    """A run resumed in a copy writes its report only there. A moved run still publishes to the requested place."""
    published = finished / "out" / "report.json"
    before = published.read_bytes()
    next(folder.glob("launches/good*/1/result.msgpack")).unlink()
    (folder / "report.json").unlink()
    again = Node(folder)
    assert len(again.ended(4)["metadata"]["segments"]) == 2
    assert f"a copy of {finished}: " in again.output
    assert published.read_bytes() == before
    assert list(published.parent.glob("report.1*")) == []
    assert f"{folder}/report.json" in again.output.splitlines()[-1]
    moved = finished.rename(finished.with_name("moved"))
    next(moved.glob("launches/good*/1/result.msgpack")).unlink()
    last = Node(moved)
    report = last.ended(4)
    assert f"started in {finished}. " in last.output
    assert json.loads(published.read_text()) == report


@pytest.mark.slow
@pytest.mark.alone
def test_killed_at_random_moments_nothing_is_lost(place: Path) -> None:
    """Ten SIGKILLs of the orchestrator, then resume: each result kept once, no cell missing, nothing left.

    Kills come by the progress of that life, then a while later, so that a slow machine is killed at work too.
    """
    moments, shared = random.Random(SEED), traces.shared_memory()
    environment = {"TMPDIR": f"{place}/tmp", "XDG_RUNTIME_DIR": f"{place}/runtime", traces.MARK: str(place)}
    folder = place / "run"
    models = [faults.model(f"model{number}", seconds=0.15) for number in range(CELLS // 2)]
    faults.prepare(folder, *models, faults.model("bad", do="raise"), devices=2)
    kept: dict[int, str] = {}
    open_: list[int] = []
    hits = 0
    for _ in range(KILLS):
        node = Node(folder, environment=environment)
        node.until(at_work(node, moments.randrange(8)))
        time.sleep(moments.uniform(0, 0.3))
        node.kill()
        own = lived(node)
        under_way = launches(own, Start) - launches(own, End)
        open_ += under_way
        hits += bool(launches(own, Spawned) & under_way)
        results = {end.launch: end.result_sha256 for end in node.of(End) if end.result_sha256}
        assert kept.items() <= results.items(), "a result that was finished is gone"
        kept = results
    assert hits >= HITS, "the kills came between the launches"
    last = Node(folder, environment=environment)
    assert last.wait() == 4, last.output
    made = last.archive()
    interrupted = [one for one in made.attempts if one.failure and one.failure.category is Category.INTERRUPTED]
    assert sorted(one.start.launch for one in interrupted) == sorted(open_)
    others = [one.failure.category for one in made.attempts if one.failure and one not in interrupted]
    assert others == [Category.EXCEPTION] * 2, "a result that was finished was taken back"
    most = max(Counter(one.start.cell for one in interrupted).values())
    assert most <= POLICY[Category.INTERRUPTED].retries, "a cell was given up: cells are too long for this machine"
    measured = Counter((one.start.cell, one.start.round) for one in made.attempts if one.promised)
    assert set(measured.values()) == {1}, "a finished cell was measured again"
    assert len(measured) == CELLS
    for one in filter(lambda one: one.promised, made.attempts):
        made.result(one)
    counts = last.report()["summary"]["cells"]
    assert (counts["missing"], counts["failed"]) == (0, 2)
    assert len(made.segments) == KILLS + 1
    assert traces.left(place, folder, shared) == []


def test_workers_die_with_their_orchestrator(tmp_path: Path) -> None:
    """One that hangs, deaf to SIGTERM, is killed by the kernel; the interrupted attempt names the phase it was in."""
    told, once = tmp_path / "told", tmp_path / "once"
    hangs = {"do": "hang, deaf to SIGTERM", "in": "measure", "told": str(told), "once": str(once)}
    node = start(tmp_path / "run", faults.model("slow", **hangs))
    node.until(lambda: node.working("slow") and told.exists())
    processes = node.worker("slow"), node.zygote()
    node.kill()
    give_up = time.monotonic() + 8
    while (alive := [one for one in processes if works(one)]) and time.monotonic() < give_up:
        time.sleep(0.05)
    for one in alive:
        one.kill()
    assert alive == []
    again = Node(tmp_path / "run")
    again.ended()
    [cut_short, _] = again.archive().attempts
    assert (cut_short.failure.category, cut_short.failure.phase) == (Category.INTERRUPTED, Phase.MEASURE)


def test_one_signal_ends_gently(tmp_path: Path) -> None:
    """SIGTERM: what runs may end, nothing begins; meanwhile `resume` is refused, later it does the rest."""
    folder = tmp_path / "run"
    node = start(folder, faults.model("slow", seconds=1.0), faults.model("other", seconds=1.0))
    node.until(lambda: node.working(""))
    node.kill(signal.SIGTERM)
    done = CliRunner().invoke(orchestrate, ["resume", str(folder)])
    assert (done.exit_code, done.output.startswith(f"error: {folder} is in use")) == (2, True), done.output
    counts = node.ended(4, timeout_s=20)["summary"]["cells"]
    assert (counts["ok"], counts["missing"]) == (1, 1)
    again = Node(folder)
    again.ended()
    assert len(again.archive().attempts) == 2


@pytest.mark.slow
def test_a_gentle_stop_ends_within_twenty_seconds(tmp_path: Path) -> None:
    """A launch that takes too long is ended; its cell is interrupted, not failed."""
    node = start(tmp_path / "run", faults.model("slow", do="hang, deaf to SIGTERM"))
    node.until(lambda: node.working("slow"))
    node.kill(signal.SIGINT)
    node.ended(4, timeout_s=20)
    (attempt,) = node.archive().attempts
    assert attempt.failure.category == "stopped on request"


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """The second Ctrl-C kills what runs; the report is written all the same. SIGHUP ends nothing."""
    node = start(tmp_path / "run", faults.model("slow", do="hang, deaf to SIGTERM"))
    node.until(lambda: node.working("slow"))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # two of one kind may reach a process as one
        node.kill(number)
    assert node.ended(4, timeout_s=8)["summary"]["cells"]["missing"] == 1
