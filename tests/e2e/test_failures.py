"""Real processes that go wrong, and what the run makes of each: named, contained, and nothing else disturbed."""

import os
import re
import resource
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.state.attempts import Attempt
from orchestrator.state.failure_policy import POLICY
from orchestrator.store.journal_records import End, Finished, Left, Spawned, Start
from protocol.failure import Category
from protocol.messages import Deadlines
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.node import ROOT, Node, name_of, start, works

SHORT = Deadlines(start=20, import_=20, build=0.7, warm_up=0.6, measure=20, finish=20)
FAULTS = {
    "raise": (Category.EXCEPTION, None),
    "import error": (Category.IMPORT_ERROR, None),
    "segfault": (Category.CRASHED, signal.SIGSEGV),
    "abort": (Category.CRASHED, signal.SIGABRT),
    "kill": (Category.KILLED, signal.SIGKILL),
    "leave without an outcome": (Category.NO_OUTCOME, None),
    "not finite": (Category.NOT_FINITE, None),
    "hang": (Category.DEADLINE, None),
    "hold the GIL": (Category.DEADLINE, None),
    "stop": (Category.DEADLINE, None),
}
"""What a model does to its process → the category of the failure, and the signal that ended the process by itself."""
BY_EXEC = ("segfault", "hang")
"""A process that ends and one that does not. How a launch is started has no part in what follows."""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[Isolation, Node]:
    """Two runs that are over: of every fault by fork, of two by exec, and of a good model beside them."""
    runs = {}
    for isolation, chosen in ((Isolation.FORK, tuple(FAULTS)), (Isolation.EXEC, BY_EXEC)):
        bad = [faults.model(fault.replace(" ", "-"), do=fault) for fault in chosen]
        folder = tmp_path_factory.mktemp("faulty") / "run"
        runs[isolation] = start(folder, *bad, faults.model("good"), isolation=isolation, deadlines=SHORT)
    for node in runs.values():
        node.ended(4)
    return runs


def failures_of(node: Node, fault: str) -> list[dict[str, Any]]:
    return [one for one in node.report()["failures"] if one["model_name"] == fault.replace(" ", "-")]


@pytest.mark.parametrize(
    ("isolation", "fault"),
    [*((Isolation.FORK, fault) for fault in FAULTS), *((Isolation.EXEC, fault) for fault in BY_EXEC)],
)
def test_a_fault_is_named_and_contained(faulty: dict[Isolation, Node], fault: str, isolation: Isolation) -> None:
    """The cell fails with its cause, after the retries that its policy allows; every other cell is measured."""
    category, number = FAULTS[fault]
    failures = failures_of(faulty[isolation], fault)
    assert len(failures) == 1 + POLICY[category].retries
    for failure in failures:
        assert failure["category"] == category
        assert number in (None, failure["signal"])
        assert failure["phase"] == "warm-up" or fault == "stop"  # it may stop before it has reported its last phase
    status = {cell["model_name"]: cell["status"] for cell in faulty[isolation].report()["cells"]}
    assert status.pop("good") == "ok"
    assert {*status.values()} == {"failed"}


def test_a_crash_leaves_its_evidence(faulty: dict[Isolation, Node]) -> None:
    """The signal, the stack of the crash, and the host's memory stand with the failure in the report."""
    evidence = failures_of(faulty[Isolation.FORK], "segfault")[0]["evidence"]
    assert "SIGSEGV" in evidence["exit"]
    assert "Segmentation fault" in evidence["stacks"]
    assert int(evidence["available_bytes"]) > 0
    assert evidence["fault"].startswith("inconclusive: ")  # no other device has the same cell


def test_stacks_are_dumped_before_a_deadline(faulty: dict[Isolation, Node]) -> None:
    """A hang leaves every thread's stack in its folder, also when the GIL is held."""
    archive = faulty[Isolation.FORK].archive()
    (attempt,) = (one for one in archive.attempts if one.start.cell.startswith("hold-the-gil"))
    assert "_hold_the_gil" in archive.folder(attempt).fault.read_text()


@pytest.mark.slow
def test_a_worker_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    """SIGTERM first, SIGKILL ten seconds later; the run goes on."""
    bad = faults.model("bad", do="hang, deaf to SIGTERM")
    node = start(tmp_path / "run", bad, faults.model("good"), deadlines=SHORT)
    assert node.ended(4)["summary"]["cells"]["ok"] == 1
    (failed,) = [one for one in node.archive().attempts if one.failure]
    assert (failed.failure.category, failed.left.signal) == (Category.DEADLINE, signal.SIGKILL)


@dataclass
class Disturbed:
    """Workers are killed, cut off from the disk, leave orphans, print without end. scores: for the OOM killer."""

    node: Node
    scores: tuple[int, ...] = ()
    orphans: list[psutil.Process] = field(default_factory=list)
    longest_output: int = 0
    limited: set[int] = field(default_factory=set)

    def watch(self) -> None:
        """Disturb it once in each way, until it is over."""
        node = self.node
        loud = list(node.paths.folder.glob("launches/loud*/1/stdout.log"))
        self.longest_output = max([self.longest_output, *(path.stat().st_blocks * 512 for path in loud)])
        if not self.scores and node.working("slow"):
            worker = node.worker("slow")
            node.until(lambda: score(worker.pid) == 1000)
            self.scores = score(worker.pid), score(node.zygote().pid), score(node.process.pid)
            worker.kill()
        if not self.orphans and self.has_ended("leaves"):
            self.orphans = [one for one in psutil.Process(node.process.pid).children(True) if name_of(one) == "sleep"]
            # It was killed: on a busy core it has yet to die of that.
            node.until(lambda: not any(works(one) for one in self.orphans) and not node.of(Finished))
        for one in node.of(Start):
            phase = node.paths.launch(one.cell, one.attempt).folder / "phase"
            if one.cell.startswith("mute") and phase.exists() and phase.read_text() == "measure":
                (pid,) = [born.pid for born in node.of(Spawned) if born.launch == one.launch]
                if pid not in self.limited:
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
                    self.limited.add(pid)

    def has_ended(self, model: str) -> bool:
        """Return whether a launch of this model has ended."""
        launches = {one.launch for one in self.node.of(Start) if one.cell.startswith(model)}
        return any(one.launch in launches for one in self.node.of(Left))

    def attempts(self, model: str) -> list[Attempt]:
        return [one for one in self.node.archive().attempts if one.start.cell.startswith(model)]


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Disturbed:
    node = start(
        tmp_path_factory.mktemp("disturbed") / "run",
        faults.model("slow", seconds=1.0),
        faults.model("leaves", do="leave an orphan"),
        faults.model("loud", do="print without end", on="cpu:0"),
        faults.model("mute", seconds=1.5),
        faults.model("mute-raises", **{"do": "raise", "in": "measure", "after": 1.5}),
        devices=2,
        deadlines=Deadlines(start=20, import_=20, build=20, warm_up=1.5, measure=20, finish=20),
    )
    made = Disturbed(node)
    while node.process.poll() is None:
        made.watch()
        time.sleep(0.01)
    node.ended(4)
    return made


def test_a_killed_worker_costs_one_attempt(disturbed: Disturbed) -> None:
    """A worker that is killed from outside is named, tried once more, and measured."""
    (second,) = [one for one in disturbed.attempts("slow") if one.start.attempt == 2]
    (first,) = [one for one in disturbed.attempts(second.start.cell) if one.start.attempt == 1]
    assert first.failure.category is Category.KILLED
    assert second.promised


def test_workers_go_first_where_memory_runs_out(disturbed: Disturbed) -> None:
    """The kernel is told to take a worker, and neither the orchestrator nor what starts workers."""
    assert disturbed.scores == (1000, score(os.getpid()), score(os.getpid()))


def test_an_orphan_is_ended_with_its_worker(disturbed: Disturbed) -> None:
    """Processes that a worker started end with the worker."""
    assert [one.promised is not None for one in disturbed.attempts("leaves")] == [True, True]
    assert not any(works(one) for one in disturbed.orphans)


def test_endless_output_is_held_below_the_cap(disturbed: Disturbed) -> None:
    """A worker that prints without end never blocks and never fills the disk; beginning and end are kept."""
    assert 0 < disturbed.longest_output < 2**30, "it writes a gigabyte a second and more"
    (attempt,) = [one for one in disturbed.attempts("loud") if one.failure]
    stdout = disturbed.node.archive().folder(attempt).stdout
    assert stdout.stat().st_size < 9 * 2**20
    assert "cut out" in stdout.read_text()


def test_a_worker_that_can_write_no_file_keeps_its_outcome(disturbed: Disturbed) -> None:
    """A disk that is full for a worker costs its logs. Result and failure reach the orchestrator; no file is torn."""
    mute = disturbed.attempts("mute")
    failures = [one.failure.category for one in mute if one.start.cell.startswith("mute-raises")]
    assert failures == [Category.EXCEPTION] * 2
    assert [one.promised is not None for one in mute].count(True) == 2
    assert len(disturbed.limited) == len(mute) == 4
    for one in mute:
        folder = disturbed.node.archive().folder(one).folder
        assert (folder / "phase").read_text() != "finish", "they could write after all"
        assert not list(folder.glob("error.*"))


def test_a_package_that_shadows_ours_is_named(tmp_path: Path) -> None:
    """A foreign package of the same name, which children would import instead, is refused; nothing is started."""
    shadow = foreign_worker(tmp_path)
    script = (
        "from orchestrator.system import process_start\n"
        "process_start._in_checkout = lambda: False\n"
        "process_start.check_rooms()"
    )
    done = python("-c", script, cwd=tmp_path, PYTHONPATH=f"{shadow}:{ROOT}")
    assert done.returncode != 0
    assert f"'worker' of {shadow}" in done.stderr


def foreign_worker(folder: Path) -> Path:
    (folder / "shadow" / "worker").mkdir(parents=True)
    (folder / "shadow" / "worker" / "__init__.py").write_text("")
    return folder / "shadow"


def test_a_killed_zygote_costs_nothing(tmp_path: Path) -> None:
    """Running workers go on; the zygote is started again, also while it imports. Our packages come first."""
    models = faults.model("slow", seconds=1.0), faults.model("good"), faults.model("other")
    node = start(tmp_path / "run", *models, devices=2, environment={"PYTHONPATH": str(foreign_worker(tmp_path))})
    node.until(lambda: bool(node.children()))
    node.children()[0].kill()
    node.until(lambda: node.working("slow"))
    node.zygote().suspend()  # nothing is born from here on: who runs, runs
    running = {one.launch for one in node.of(Spawned)} - {one.launch for one in node.of(End)}
    node.zygote().kill()
    node.ended()
    assert re.search("zygote .*SIGKILL", node.output)
    attempts = node.archive().attempts
    assert {one.failure.category for one in attempts if one.failure} <= {Category.ZYGOTE_DIED}
    assert running, "nothing was running"
    assert running <= {one.start.launch for one in attempts if one.promised}
    assert len(node.archive().zygotes) == 2


@pytest.mark.slow
def test_a_stopped_zygote_is_replaced(tmp_path: Path) -> None:
    """A zygote that does not answer is killed and started again; no cell is blamed for it."""
    node = start(tmp_path / "run", faults.model("slow", seconds=1.0), faults.model("good"), faults.model("other"))
    node.until(lambda: node.working(""))
    node.zygote().suspend()
    node.ended()
    [(category, words)] = {
        (one.failure.category, one.failure.message) for one in node.archive().attempts if one.failure
    }
    assert (category, re.findall(r"10 s|state T", words)) == (Category.ZYGOTE_DIED, ["10 s", "state T"])
    assert re.search(f"warning: {re.escape(words)} .*restarted", node.output)
