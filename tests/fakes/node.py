"""A run in a process of its own, as a user starts it, and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from orchestrator.gpu.health import records as health
from orchestrator.gpu.health.records import Vitals
from orchestrator.state import archive
from orchestrator.state.archive import Archive
from orchestrator.store import journal
from orchestrator.store.journal_records import Record, Segment, Spawned, Start
from protocol.cell import ModelSpec
from protocol.paths import RunPaths
from tests.fakes import faults

T = TypeVar("T", bound=Record)
ROOT = Path(__file__).resolve().parents[2]
SOCKETS = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"gpubench-{os.getuid()}"


class Node:
    """`gpubench-orchestrate resume FOLDER`, running. Ended with the test that started it (tests/conftest.py)."""

    def __init__(self, folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.paths = RunPaths(folder)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", "resume", str(folder), *options],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""
        _BEGUN.append(self)

    def wait(self, timeout_s: float = 60.0) -> int:
        """Its exit code. What it printed is in `output`."""
        self.output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode

    def ended(self, code: int = 0, timeout_s: float = 60.0) -> dict[str, Any]:
        """Wait until it ends with this exit code and leaves nothing behind. Returns the report."""
        assert self.wait(timeout_s) == code, self.output
        assert leftovers(self.paths.folder) == NOTHING
        return self.report()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal, and wait for its end if it is SIGKILL."""
        self.process.send_signal(number)
        if number is signal.SIGKILL:
            self.wait()

    def end(self) -> None:
        """Kill it if it still runs, and read no more of what it prints."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def records(self) -> tuple[Record, ...]:
        return journal.read(self.paths.journal) if self.paths.journal.exists() else ()

    def of(self, kind: type[T]) -> list[T]:
        """The records of this kind in its journal."""
        return [record for record in self.records() if isinstance(record, kind)]

    def archive(self) -> Archive:
        return archive.load(self.paths)

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.paths.report("json").read_text())
        return report

    def zygote(self) -> psutil.Process:
        """Its zygote: the oldest of that name, which a worker that was just forked bears too for a moment."""
        found = [child for child in self.children() if name_of(child) == "gpubench-zygote"]
        return min(found, key=lambda child: child.pid)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def worker(self, cell: str) -> psutil.Process:
        return psutil.Process(self._pids(cell)[0])

    def until(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
        """Wait until `condition` holds. Fails when it does not in time, or the run is over before."""
        give_up = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, f"the run is over: {self.wait()}\n{self.output}"
            assert time.monotonic() < give_up, "it did not happen in time"
            time.sleep(0.005)

    def working(self, cell: str) -> bool:
        return bool(self._pids(cell))

    def looked_at(self, gpus: int) -> bool:
        """Whether telemetry has read the health of this many GPUs: what changes from now on is a change to it."""
        seen = (one.uuid for one in health.read(self.paths.health) if isinstance(one, Vitals))
        return len(set(seen)) >= gpus

    def _pids(self, cell: str) -> list[int]:
        launches = {one.launch for one in self.of(Start) if one.cell.startswith(cell)}
        return [one.pid for one in self.of(Spawned) if one.launch in launches]


def start(
    folder: Path,
    *models: ModelSpec,
    environment: Mapping[str, str] | None = None,
    words: Sequence[str] = (),
    **options: Any,
) -> Node:
    """Prepare a run of these models, and start it. words: for `resume`. options: those of faults.prepare."""
    faults.prepare(folder, *models, **options)
    return Node(folder, *words, environment=environment)


def leftovers(folder: Path) -> dict[str, Sequence[str]]:
    """Return the leftovers of a run: processes with a file of its folder open, sockets, temporary files."""
    return {
        "processes": [name_of(process) for process in psutil.process_iter() if _uses(process, folder)],
        "sockets": [name for name in _sockets(folder) if (SOCKETS / name).exists()],
        "temporary files": [str(found) for found in folder.rglob("*.tmp")],
    }


NOTHING: dict[str, Sequence[str]] = {"processes": [], "sockets": [], "temporary files": []}
_BEGUN: list[Node] = []


def end_all() -> None:
    """End every run that was begun: one that a failed test has left would be an error in the next test."""
    while _BEGUN:
        _BEGUN.pop().end()


def name_of(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def works(process: psutil.Process) -> bool:
    """Whether it is there, and not killed and only to be reaped."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _uses(process: psutil.Process, folder: Path) -> bool:
    """Whether a process has a file of the folder open, as every process of a run has its log."""
    try:
        links = [str(path.readlink()) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
    except OSError:
        return False  # it has ended, or is a zombie or somebody else's
    return any(link.startswith(str(folder)) for link in links)


def _sockets(folder: Path) -> list[str]:
    """Folders of sockets that the processes of a run have made: the journal knows their PIDs."""
    records = journal.read(RunPaths(folder).journal)
    return [f"{folder.name}-{record.pid}" for record in records if isinstance(record, Segment)]
