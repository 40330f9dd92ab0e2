"""Real processes that go wrong, and what the run makes of each: named, contained, and nothing else disturbed."""

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.state.failure_policy import POLICY
from orchestrator.store.records import End, Finished, Left, Spawned, Start
from protocol.failure import Category
from protocol.messages import Deadlines
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.node import NOTHING, ROOT, Node, leftovers, name_of, works

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
        folder = tmp_path_factory.mktemp("faulty") / "run"
        bad = [faults.model(fault.replace(" ", "-"), do=fault) for fault in chosen]
        faults.prepare(folder, *bad, faults.model("good"), isolation=isolation, deadlines=SHORT)
        runs[isolation] = Node(folder)
        assert runs[isolation].wait() == 4, runs[isolation].output
    return runs


@pytest.mark.parametrize(
    ("isolation", "fault"),
    [*((Isolation.FORK, fault) for fault in FAULTS), *((Isolation.EXEC, fault) for fault in BY_EXEC)],
)
def test_a_fault_is_named_and_contained(faulty: dict[Isolation, Node], fault: str, isolation: Isolation) -> None:
    """The cell fails with its cause, after the retries that its policy allows."""
    category, number = FAULTS[fault]
    failures = failures_of(faulty[isolation], fault)
    assert len(failures) == 1 + POLICY[category].retries
    for failure in failures:
        assert failure["category"] == category
        assert number in (None, failure["signal"])
        assert failure["phase"] == "warm-up" or fault == "stop"  # it may stop before it has reported its last phase


@pytest.mark.parametrize("isolation", Isolation)
def test_faults_leave_their_neighbours_alone(faulty: dict[Isolation, Node], isolation: Isolation) -> None:
    """Every other cell is measured, and nothing is left behind."""
    node = faulty[isolation]
    status = {cell["model_name"]: cell["status"] for cell in node.report()["cells"]}
    assert status.pop("good") == "ok"
    assert {*status.values()} == {"failed"}
    assert leftovers(node.paths.folder) == NOTHING


def test_a_crash_leaves_its_evidence(faulty: dict[Isolation, Node]) -> None:
    """The signal, the stack of the crash, and the host's memory stand with the failure in the report."""
    evidence = failures_of(faulty[Isolation.FORK], "segfault")[0]["evidence"]
    assert "SIGSEGV" in evidence["exit"]
    assert "Segmentation fault" in evidence["stacks"]
    assert int(evidence["available_bytes"]) > 0
    assert evidence["fault"].startswith("the model's or the device's")  # no other device has the same cell


def test_stacks_are_dumped_before_a_deadline(faulty: dict[Isolation, Node]) -> None:
    """A hang leaves every thread's stack in its folder, also when the GIL is held."""
    archive = faulty[Isolation.FORK].archive()
    (attempt,) = (one for one in archive.attempts if one.start.cell.startswith("hold-the-gil"))
    assert "_hold_the_gil" in archive.folder(attempt).fault.read_text()


def failures_of(node: Node, fault: str) -> list[dict[str, Any]]:
    """The failures of the model that does this."""
    return [one for one in node.report()["failures"] if one["model_name"] == fault.replace(" ", "-")]


@pytest.mark.slow
def test_a_worker_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    """SIGTERM first, SIGKILL ten seconds later; the run goes on."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("bad", do="hang, deaf to SIGTERM"), faults.model("good"), deadlines=SHORT)
    node = Node(folder)
    assert node.wait() == 4
    assert node.report()["summary"]["cells"]["ok"] == 1
    (failed,) = [one for one in node.archive().attempts if one.failure]
    assert failed.failure is not None
    assert failed.failure.category is Category.DEADLINE
    assert failed.left is not None
    assert failed.left.signal == signal.SIGKILL


def test_a_killed_worker_costs_one_attempt(tmp_path: Path) -> None:
    """A worker that is killed from outside is named, tried once more, and measured."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", seconds=1.0), faults.model("good"), devices=2)
    node = Node(folder)
    node.until(lambda: node.working("slow"))
    node.worker("slow").kill()
    assert node.wait() == 0, node.output
    attempts = node.archive().attempts
    (second,) = [one for one in attempts if one.start.attempt == 2]
    (first,) = [one for one in attempts if one.start.cell == second.start.cell and one.start.attempt == 1]
    assert first.failure is not None
    assert first.failure.category is Category.KILLED
    assert second.promised
    assert leftovers(folder) == NOTHING


def test_workers_go_first_where_memory_runs_out(tmp_path: Path) -> None:
    """The kernel is told to take a worker, and neither the orchestrator nor what starts workers."""
    faults.prepare(tmp_path / "run", faults.model("endless", do="hang"))
    node = Node(tmp_path / "run")
    node.until(lambda: node.working("endless"))
    node.until(lambda: score(node.worker("endless").pid) == 1000)
    assert score(node.process.pid) == score(os.getpid())
    assert score(node.zygote().pid) == score(os.getpid())
    node.kill(signal.SIGTERM)
    node.kill(signal.SIGINT)
    node.wait()


def score(pid: int) -> int:
    """How gladly the kernel ends a process where memory runs out."""
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_a_killed_zygote_costs_nothing(tmp_path: Path) -> None:
    """Running workers go on and are measured; the zygote is started again, also for a launch it was just forking."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", seconds=1.0), faults.model("good"), faults.model("other"), devices=2)
    node = Node(folder)
    node.until(lambda: node.working("slow"))
    node.zygote().suspend()  # nothing is born from here on: who runs, runs
    running = {one.launch for one in node.records() if isinstance(one, Spawned)}
    running -= {one.launch for one in node.records() if isinstance(one, End)}
    node.zygote().kill()
    assert node.wait() == 0, node.output
    assert "the zygote ended with killed by SIGKILL" in node.output
    failures = {one.failure.category for one in node.archive().attempts if one.failure}
    assert failures <= {Category.ZYGOTE_DIED}
    assert running, "nothing was running"
    assert running <= {one.start.launch for one in node.archive().attempts if one.promised}
    assert len(node.archive().zygotes) == 2
    assert leftovers(folder) == NOTHING


def test_an_orphan_is_ended_with_its_worker(tmp_path: Path) -> None:
    """What a worker started does not outlive it."""
    folder = tmp_path / "run"
    others = (faults.model(f"m{number}", seconds=1) for number in range(3))
    faults.prepare(folder, faults.model("bad", do="leave an orphan"), *others)
    node = Node(folder)
    node.until(lambda: any(isinstance(one, Left) and one.launch in bad_launches(node) for one in node.records()))
    below = psutil.Process(node.process.pid).children(recursive=True)
    left = [one for one in below if name_of(one) == "sleep"]
    node.until(lambda: not any(works(one) for one in left))  # it was killed: on a busy core it has yet to die of that
    assert not any(isinstance(one, Finished) for one in node.records()), "the orphan outlived its launch"
    assert node.wait() == 0, node.output
    assert leftovers(folder) == NOTHING


def bad_launches(node: Node) -> set[int]:
    """Launches of the model that goes wrong."""
    return {one.launch for one in node.records() if isinstance(one, Start) and one.cell.startswith("bad")}


def test_endless_output_is_held_below_the_cap(tmp_path: Path) -> None:
    """A worker that prints without end never blocks and never fills the disk; beginning and end are kept."""
    folder = tmp_path / "run"
    deadlines = Deadlines(start=20, import_=20, build=20, warm_up=1.5, measure=20, finish=20)
    faults.prepare(folder, faults.model("bad", do="print without end"), deadlines=deadlines)
    node = Node(folder)
    node.until(lambda: any(folder.glob("launches/*/1/stdout.log")))  # its process makes it, after the journal has it
    (path,) = folder.glob("launches/*/1/stdout.log")
    most = 0
    while node.process.poll() is None:
        most = max(most, path.stat().st_blocks * 512 if path.exists() else 0)
        time.sleep(0.01)
    assert node.wait() == 4
    assert most < 2**30, "it writes a gigabyte a second and more"
    (attempt,) = node.archive().attempts
    stdout = node.archive().folder(attempt).stdout
    assert stdout.stat().st_size < 9 * 2**20
    assert "bytes were cut out here" in stdout.read_text()


def test_a_package_that_shadows_ours_is_named(tmp_path: Path) -> None:
    """A foreign package of the same name, which children would import instead, is refused; nothing is started."""
    shadow = tmp_path / "shadow"
    (shadow / "worker").mkdir(parents=True)
    (shadow / "worker" / "__init__.py").write_text("")
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    script = (
        "from orchestrator.system import process_start\n"
        "process_start._in_checkout = lambda: False\n"
        "process_start.check_rooms()"
    )
    done = python("-c", script, cwd=tmp_path, PYTHONPATH=f"{shadow}:{ROOT}")
    assert done.returncode != 0
    assert f"the package 'worker' of {shadow} would be used" in done.stderr
    node = Node(folder, environment={"PYTHONPATH": str(shadow)})  # in a checkout ours come first
    assert node.wait() == 0, node.output


def test_a_zygote_killed_while_it_imports_is_started_again(tmp_path: Path) -> None:
    """One kill at the worst moment costs seconds, not the run."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    node = Node(folder)
    node.until(lambda: bool(node.children()))
    node.children()[0].kill()
    assert node.wait() == 0, node.output


@pytest.mark.slow
def test_a_stopped_zygote_is_replaced(tmp_path: Path) -> None:
    """A zygote that does not answer is killed and started again; no cell is blamed for it."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", seconds=1.0), faults.model("good"), faults.model("other"))
    node = Node(folder)
    node.until(lambda: node.working("slow") or node.working("good") or node.working("other"))
    node.zygote().suspend()
    assert node.wait(timeout_s=60) == 0, node.output
    words = "the zygote did not answer for 10 s (state T); it was ended"
    assert f"warning: {words} and is started again" in node.output
    failures = {(one.failure.category, one.failure.message) for one in node.archive().attempts if one.failure}
    assert failures == {(Category.ZYGOTE_DIED, words)}
    assert leftovers(folder) == NOTHING


def test_a_worker_that_can_write_no_file_keeps_its_outcome(tmp_path: Path) -> None:
    """A disk that is full for a worker costs its logs. Result and failure reach the orchestrator; no file is torn."""
    folder = tmp_path / "run"
    bad = faults.model("bad", **{"do": "raise", "in": "measure", "after": 1.5})
    faults.prepare(folder, faults.model("good", seconds=1.5), bad)
    node = Node(folder)
    limited: set[str] = set()
    while limited != {"good", "bad"}:
        node.until(lambda: bool(measuring(folder) - limited))
        (model,) = measuring(folder) - limited
        resource.prlimit(node.worker(model).pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        limited.add(model)
    assert node.wait() == 4, node.output
    good, failed = sorted(node.archive().attempts, key=lambda one: one.start.cell, reverse=True)
    assert good.promised
    assert failed.failure is not None
    assert failed.failure.category is Category.EXCEPTION
    phases = {path.read_text() for path in folder.glob("launches/*/1/phase")}
    assert "finish" not in phases, "they could write after all"
    assert not list(folder.rglob("error.*"))


def measuring(folder: Path) -> set[str]:
    """The models whose last phase, as their worker wrote it down, is the measurement."""
    phases = folder.glob("launches/*/1/phase")
    return {path.parent.parent.name.partition("-")[0] for path in phases if path.read_text() == "measure"}
