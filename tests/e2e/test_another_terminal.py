"""A run seen and ended from another terminal: `status`, `watch` and `stop` on a run that really goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from orchestrator.store.records import StopAsked
from protocol.messages import Deadlines
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.node import NOTHING, ROOT, Node, leftovers

LONG = Deadlines(start=20, import_=20, build=20, warm_up=200, measure=20, finish=20)


def begun(folder: Path, *options: str) -> Node:
    """A run of two models; one of them never ends by itself, and is being worked on."""
    faults.prepare(folder, faults.model("good"), faults.model("endless", do="hang"), deadlines=LONG)
    node = Node(folder, *options)
    node.until(lambda: node.working("endless"))
    return node


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in another terminal."""
    return python("-m", "orchestrator", *arguments, cwd=cwd)


def test_a_run_is_seen_and_stopped_from_elsewhere(tmp_path: Path) -> None:
    """`status` tells what it does, `stop` ends it as Ctrl-C would, `watch` tells the end with its exit code."""
    folder = tmp_path / "runs" / "20260401-213000-1f2e3d"
    told = tmp_path / "told"
    node = begun(
        folder, "--on-failure", f"sh -c 'echo $GPUBENCH_EXIT_CODE $GPUBENCH_VERDICT $GPUBENCH_REPORT > {told}'"
    )
    status = json.loads(call("status", "--json", cwd=tmp_path).stdout)
    assert (status["standing"], status["pid"], status["planned"]) == ("running", node.process.pid, 2)
    assert [work["cell"] for work in status["working"]] == ["endless fault fp32"]
    watch = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "watch", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert watch.stdout is not None
    assert "running" in watch.stdout.readline()
    asked = call("stop", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith(f"Process {node.process.pid} was asked to stop")
    node.until(lambda: any(isinstance(record, StopAsked) for record in node.records()))
    assert "running, and asked to stop\n" in call("status", cwd=tmp_path).stdout
    assert any("warning: asked to stop: nothing new begins" in line for line in watch.stdout)
    once_more = call("stop", cwd=tmp_path)
    assert once_more.returncode == 0, once_more.stderr
    assert once_more.stdout == (
        f"Process {node.process.pid} was asked once more to stop: it ends what runs now, and writes the report.\n"
    )
    assert node.wait() == 4, node.output
    assert "warning: stopping now: what still runs is killed" in node.output
    assert sum(isinstance(record, StopAsked) for record in node.records()) == 2, "asked, and asked again"
    assert told.read_text() == f"4 incomplete {folder / 'out' / 'report.json'}\n"
    seen, _ = watch.communicate(timeout=30)
    assert watch.returncode == 4
    assert "stopped before its end (stopped on request)" in seen
    assert not any(line.rstrip().endswith("warning:") for line in seen.splitlines())
    again = call("stop", cwd=tmp_path)
    assert (again.returncode, "no process works on it. Nothing was stopped." in again.stderr) == (2, True)
    assert leftovers(folder) == NOTHING


def test_a_run_that_is_halted_is_told_as_such_by_stop(tmp_path: Path) -> None:
    """SIGSTOP: it hears nothing until somebody lets it go on, and then it stops as it was asked to."""
    node = begun(tmp_path / "run")
    node.kill(signal.SIGSTOP)
    os.waitid(os.P_PID, node.process.pid, os.WSTOPPED | os.WNOWAIT)
    asked = call("stop", str(node.paths.folder), cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    pid = node.process.pid
    assert asked.stdout.startswith(f"Process {pid} was asked to stop, but is stopped (SIGSTOP, state T)")
    assert f"`kill -CONT {pid}` lets it go on" in asked.stdout
    node.kill(signal.SIGCONT)
    node.until(lambda: any(isinstance(record, StopAsked) for record in node.records()))
    node.kill(signal.SIGTERM)
    assert node.wait() == 4, node.output


def test_a_run_that_died_is_told_as_such(tmp_path: Path) -> None:
    """Killed, so that nobody could write it down: its lock and its journal tell, and `stop` signals nobody."""
    folder = tmp_path / "runs" / "20260401-213000-1f2e3d"
    node = begun(folder)
    pid = node.process.pid
    node.kill(signal.SIGKILL)
    node.wait()
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=5)
    assert f"{folder}: its process died\n" in call("status", str(folder), cwd=tmp_path).stdout
    assert call("stop", str(folder), cwd=tmp_path).returncode == 2
    watched = call("watch", str(folder), cwd=tmp_path)
    assert (watched.returncode, "`gpubench-orchestrate resume " in watched.stdout) == (4, True)


def test_whoever_leaves_watch_leaves_the_run_alone(tmp_path: Path) -> None:
    """Ctrl-C in the terminal that watches, or a reader that has gone."""
    node = begun(tmp_path / "run")
    watch = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "watch", str(node.paths.folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None
    assert "running" in watch.stdout.readline()
    watch.send_signal(signal.SIGINT)
    rest, _ = watch.communicate(timeout=30)
    assert watch.returncode == 4
    assert "The run goes on." in rest
    assert node.process.poll() is None
    node.kill(signal.SIGTERM)
    node.kill(signal.SIGINT)
    assert node.wait() == 4
