"""What is left of earlier lives and earlier launches: processes that go on, messages that come late, descriptors."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import zmq

from orchestrator.store.journal import Journal
from orchestrator.store.journal_records import End, Segment, Spawned
from orchestrator.system import host
from protocol import VERSION, codec
from protocol.failure import Category, Failure, Phase
from protocol.messages import Dismiss, Hello, Outcome, ToWorker
from tests.fakes import faults, gpu_runs
from tests.fakes.commands import python
from tests.fakes.injection import inject
from tests.fakes.node import ROOT, SOCKETS, Node, leftovers, name_of, start
from tests.fakes.nvml import FakeNvml

Sleeper = subprocess.Popen[bytes]


@pytest.fixture
def sleepers() -> Iterator[list[Sleeper]]:
    """Processes that outlive whatever they belonged to; ended with the test."""
    with ExitStack() as opened:
        started = [opened.enter_context(subprocess.Popen(["sleep", "600"])) for _ in range(3)]
        yield started
        for one in started:
            one.kill()


def spawned(process: Sleeper, earlier: int = 0) -> Spawned:
    """The process as the worker of launch 0, or one of its number that had started so many ticks before it."""
    return Spawned(launch=0, pid=process.pid, start_ticks=host.start_ticks(process.pid) - earlier)


def speak_as_a_stale_worker(node: Node) -> None:
    """Speak for its first launch without the token of a launch under way: who says hello is dismissed."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as stale:
        stale.setsockopt(zmq.LINGER, 0)
        stale.setsockopt(zmq.IDENTITY, b"stale")
        stale.connect(f"ipc://{SOCKETS / f'{node.paths.folder.name}-{node.process.pid}' / 'link'}")
        failure = Failure(category=Category.EXCEPTION, message="from another life", phase=Phase.MEASURE)
        stale.send(codec.encode(Outcome(launch=0, token="stale", failure=failure)))
        stale.send(codec.encode(Hello(launch=0, token="stale", version=VERSION, pid=node.process.pid, root=str(ROOT))))
        assert stale.poll(5000), "it was not answered"
        assert isinstance(codec.decode(stale.recv(), ToWorker), Dismiss)


def test_what_an_earlier_life_has_left_is_ended_and_removed(tmp_path: Path, sleepers: list[Sleeper]) -> None:
    """By PID, start time and boot; temporary files by PID; a stale worker cannot speak for a launch."""
    folder = tmp_path / "run"
    killed = start(folder, faults.model("slow", seconds=2.0))
    killed.until(lambda: killed.working("slow"))
    speak_as_a_stale_worker(killed)
    assert killed.of(End) == []
    killed.kill()
    worker, newer, other_boot = sleepers
    (segment,) = killed.of(Segment)
    with Journal(killed.paths.journal) as journal:
        journal.append(spawned(worker))
        journal.append(spawned(newer, earlier=1))
        journal.append(msgspec.structs.replace(segment, boot_id="00000000-0000-0000-0000-000000000000"))
        journal.append(spawned(other_boot))
    (attempt,) = folder.glob("launches/*/1")
    (folder / "out").mkdir()
    (attempt / "rank1").mkdir()
    mine = f"{killed.process.pid}.tmp"
    unfinished = [
        *(where / f".report.json.{mine}" for where in (folder, folder / "out")),
        *(attempt / name for name in (f".result.msgpack.{mine}", "error.tmp", "rank1/stdout.tmp")),
    ]
    foreign = folder / "out" / ".report.json.1.tmp"
    for path in (*unfinished, foreign):
        path.touch()
    node = Node(folder)
    assert node.wait() == 0, node.output
    assert worker.wait(timeout=10) == -signal.SIGKILL
    assert (newer.poll(), other_boot.poll()) == (None, None)
    assert [path for path in unfinished if path.exists()] == []
    assert foreign.exists()


def test_what_a_worker_of_an_earlier_life_started_is_ended(tmp_path: Path) -> None:
    """A killed orchestrator leaves its worker's child: `resume` ends it before it looks at the GPUs."""
    nvml, folder = FakeNvml(tmp_path, gpus=1), tmp_path / "run"
    orphan = faults.model("slow", do="leave an orphan", once=str(tmp_path / "once"), seconds=1.0)
    killed = gpu_runs.start(nvml, folder, orphan)
    killed.until(lambda: killed.working("slow") and "sleep" in leftovers(folder)["processes"])
    (left,) = [child for child in killed.worker("slow").children() if name_of(child) == "sleep"]
    killed.kill()
    assert "sleep" in leftovers(folder)["processes"]
    nvml.set({"gpu.0.compute": f"{left.pid} 1000", "gpu.0.mortal": 1})
    gpu_runs.resume(nvml, folder).ended()


ORPHANS = """
import json, os, subprocess, sys
from pathlib import Path
from orchestrator.system import host
from orchestrator.system import process_end as ending

folder = Path(sys.argv[1]).resolve()
def session():
    child = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True,
                             stderr=(folder / "log").open("a"), start_new_session=True)
    return child, int(child.stdout.readline())

(led, of_it), (ended, orphan), (reused, not_ours) = session(), session(), session()
workers = [(child.pid, host.start_ticks(child.pid)) for child in (led, ended)]
ended.kill(); ended.wait()
own, parent = os.getsid(0), os.getppid()
forged = [(pid, 1) for pid in (own, os.getpid(), parent, reused.pid)]
inside = (folder / "log").open()   # as whoever has sent our output into the folder
found = ending.orphans([*workers, *forged], folder)
young = ending.orphans([(ended.pid, host.start_ticks(orphan) + 1)], folder)
ending.end_leftovers([(os.getpid(), host.start_ticks(os.getpid())), (parent, host.start_ticks(parent))])
print(json.dumps({"found": sorted(pid for pid, _ in found), "expected": sorted([led.pid, of_it, orphan]),
                  "older": young}))
ending.end_leftovers([*found, (not_ours, host.start_ticks(not_ours)), (reused.pid, host.start_ticks(reused.pid))])
"""


def test_only_what_a_worker_has_started_is_its_orphan(tmp_path: Path) -> None:
    """Sessions are named by PIDs, which are used again: neither we nor what came before the worker is ended for it."""
    folder = tmp_path / "run"
    folder.mkdir()
    done = python("-c", ORPHANS, str(folder), cwd=tmp_path)
    assert done.returncode == 0, (done.returncode, done.stderr)
    seen = json.loads(done.stdout)
    assert (seen["found"], seen["older"]) == (seen["expected"], [])


RUN = """
import json
from pathlib import Path
from orchestrator.engine import run
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.run_reports import reporting
from orchestrator.state import archive; from orchestrator.store import run_files
from orchestrator.engine.display_events import CellEnded
from protocol.paths import RunPaths

def held():
    return len(list(Path("/proc/self/fd").iterdir()))

class Counting:
    def __init__(self):
        self.counts = []
    def show(self, snapshot):
        pass
    def tell(self, event):
        if isinstance(event, CellEnded):
            self.counts.append(held())
    def close(self):
        pass

after, during = [], []
for folder in {folders!r}:
    paths, display = RunPaths(Path(folder)), Counting()
    run.execute(run_files.load(paths), paths, display, kind=BENCHMARK, write_report=reporting.write)
    after.append(held())
    during.append(display.counts)
print(json.dumps([after, during]))
"""


def test_descriptors_do_not_add_up(tmp_path: Path) -> None:
    """After thirty cells the orchestrator holds as many descriptors as after five, and at the last as at the first."""
    folders = []
    for name, cells in (("first", 1), ("five", 5), ("thirty", 30)):  # the first one loads what loads once
        faults.prepare(tmp_path / name, *(faults.model(f"model{number}") for number in range(cells)))
        folders.append(str(tmp_path / name))
    done = python("-c", RUN.format(folders=folders), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (_, five, thirty), (_, _, during) = json.loads(done.stdout)
    assert thirty == five
    assert len(during) == 30
    assert min(during[-5:]) <= max(during[:5]), during


KILLED_LATE = """
import os, signal
from orchestrator.store import journal
journal.Journal.close = lambda _: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_late_kill_has_left_is_removed(tmp_path: Path) -> None:
    """Killed when the run was over and reported, it leaves reserved space, which `resume` gives back."""
    environment = inject(tmp_path / "injected", KILLED_LATE)
    killed = start(tmp_path / "run", faults.model("one"), environment=environment)
    assert killed.wait() == -signal.SIGKILL
    left = {"journal.reserve", ".report.json.1.tmp"}
    (killed.paths.folder / ".report.json.1.tmp").touch()
    assert left <= {path.name for path in killed.paths.folder.iterdir()}
    resumed = Node(killed.paths.folder)
    assert resumed.wait() == 0, resumed.output
    assert not left & {path.name for path in killed.paths.folder.iterdir()}
