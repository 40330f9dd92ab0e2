"""Real processes that go wrong, and what the run makes of each: named, contained, and nothing else disturbed."""

import os
import resource
import signal
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.store.records import End, Finished, Left, Spawned, Start
from protocol.failure import Category
from protocol.messages import Deadlines
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.node import NOTHING, ROOT, Node, leftovers, name_of, works

SHORT = Deadlines(start=20, import_=20, build=0.7, warm_up=0.6, measure=20, finish=20)


def only_failure(node: Node) -> tuple[str, str, str]:
    """Category, message and phase of the one failed cell; every other cell must have been measured."""
    report = node.report()
    counts = report["summary"]["cells"]
    assert counts["failed"] == 1, report["failures"]
    assert counts["missing"] == 0
    final = report["failures"][-1]
    return final["category"], final["message"], final["phase"]


FAULTS = {
    "raise": ("exception", "RuntimeError: raised on request", 1),
    "import error": ("import error", "No module named 'nothing_like_this'", 1),
    "segfault": ("crashed", "killed by SIGSEGV", 2),
    "abort": ("crashed", "killed by SIGABRT", 2),
    "kill": ("killed, cause unknown", "killed by SIGKILL, cause unknown", 2),
    "leave without an outcome": ("ended without an outcome", "exit code 0", 2),
    "not finite": ("loss is not finite", "nan", 1),
    "hang": ("deadline exceeded", "the phase 'warm-up' took longer than 0.7 s", 1),
    "hold the GIL": ("deadline exceeded", "the phase 'warm-up' took longer than 0.7 s", 1),
    "stop": ("deadline exceeded", "took longer than 0.7 s", 1),  # it may stop before its last phase is told
}


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_contained(tmp_path: Path, fault: str, isolation: Isolation) -> None:
    """The cell fails with its cause, after the retries that its policy allows; its neighbours are measured."""
    category, message, attempts = FAULTS[fault]
    folder = tmp_path / "run"
    bad, good = faults.model("bad", do=fault), faults.model("good")
    faults.prepare(folder, bad, good, isolation=isolation, deadlines=SHORT)
    node = Node(folder)
    assert node.wait() == 4, node.output
    found, words, phase = only_failure(node)
    assert found == category
    assert message in words
    assert phase == "warm-up" or fault == "stop"
    tries = [attempt for attempt in node.archive().attempts if attempt.start.cell.startswith("bad")]
    assert len(tries) == attempts
    assert leftovers(folder) == NOTHING


def test_stacks_are_dumped_before_a_deadline(tmp_path: Path) -> None:
    """A hang leaves every thread's stack in its folder, also when the GIL is held."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("bad", do="hold the GIL"), deadlines=SHORT)
    node = Node(folder)
    assert node.wait() == 4
    (attempt,) = node.archive().attempts
    assert "_hold_the_gil" in node.archive().folder(attempt).fault.read_text()


@pytest.mark.slow
def test_a_worker_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    """SIGTERM first, SIGKILL ten seconds later; the run goes on."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("bad", do="hang, deaf to SIGTERM"), faults.model("good"), deadlines=SHORT)
    node = Node(folder)
    assert node.wait() == 4
    assert only_failure(node)[0] == "deadline exceeded"
    (left,) = [one.left for one in node.archive().attempts if one.start.cell.startswith("bad")]
    assert left is not None
    assert left.signal == signal.SIGKILL


def test_a_killed_worker_costs_one_attempt(tmp_path: Path) -> None:
    """A worker that is killed from outside is named, tried once more, and measured."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", seconds=2.0), faults.model("good"), devices=2)
    node = Node(folder)
    node.until(lambda: node.working("slow"))
    node.worker("slow").kill()
    assert node.wait() == 0, node.output
    killed = node.archive().attempts
    (second,) = [one for one in killed if one.start.attempt == 2]
    (first,) = [one for one in killed if one.start.cell == second.start.cell and one.start.attempt == 1]
    assert first.failure is not None
    assert first.failure.message == "killed by SIGKILL, cause unknown"
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
    assert "the zygote ended with killed by SIGKILL and is started again" in node.output
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
    deadlines = Deadlines(start=20, import_=20, build=20, warm_up=3, measure=20, finish=20)
    faults.prepare(folder, faults.model("bad", do="print without end"), deadlines=deadlines)
    node = Node(folder)
    node.until(lambda: any(folder.glob("launches/*/1/stdout.log")))  # its process makes it, after the journal has it
    (path,) = folder.glob("launches/*/1/stdout.log")
    most = 0
    while node.process.poll() is None:
        most = max(most, path.stat().st_blocks * 512 if path.exists() else 0)
        time.sleep(0.01)
    assert node.wait() == 4
    assert most < 2**30, "three seconds of it are several gigabytes"
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
    script = "import sys; from orchestrator.system import process_start as spawn; spawn._in_checkout = lambda: False; spawn.check_rooms()"
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


def test_a_worker_that_can_write_no_file_keeps_its_result(tmp_path: Path) -> None:
    """A disk that is full for a worker costs its logs; the result goes to the orchestrator, which keeps it."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", seconds=2.0))
    node = Node(folder)
    node.until(lambda: node.working("slow") and phase(folder) == "measure")
    resource.prlimit(node.worker("slow").pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    assert node.wait() == 0, node.output
    (attempt,) = node.archive().attempts
    assert attempt.promised
    assert phase(folder) != "finish", "it could write after all"


def test_a_worker_that_fails_on_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    """It cannot write down its failure, which the orchestrator hears all the same."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("slow", **{"do": "raise", "in": "measure", "after": 2.0}))
    node = Node(folder)
    node.until(lambda: node.working("slow") and phase(folder) == "measure")
    resource.prlimit(node.worker("slow").pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    assert node.wait() == 4, node.output
    (attempt,) = node.archive().attempts
    assert attempt.failure is not None
    assert attempt.failure.category is Category.EXCEPTION
    assert not list(folder.rglob("error.*"))


def phase(folder: Path) -> str:
    """The phase that the only worker has written down."""
    return "".join(path.read_text() for path in folder.glob("launches/*/1/phase"))
