"""A run seen and ended from another terminal: `status`, `watch` and `stop` on a run that is under way."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.commands import orchestrate
from orchestrator.engine.status_types import Standing
from orchestrator.store.journal_records import StopRequest
from protocol.messages import Deadlines
from tests.fakes import faults
from tests.fakes.node import ROOT, Node, start

LONG = Deadlines(start=20, import_=20, build=20, warm_up=200, measure=20, finish=20)
FOLDER = Path("runs", "20260401-213000-1f2e3d")


def begin(folder: Path, *words: str) -> Node:
    """Start a run of two models; one of them never ends by itself, and is being worked on."""
    node = start(folder, faults.model("good"), faults.model("endless", do="hang"), deadlines=LONG, words=words)
    node.until(lambda: node.working("endless"))
    return node


def watch(node: Node) -> subprocess.Popen[str]:
    """`watch` in another terminal, once it has said that the run goes on."""
    command = [sys.executable, "-m", "orchestrator", "watch", str(node.paths.folder)]
    started = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert "running" in started.stdout.readline()
    return started


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(orchestrate, words, prog_name="gpubench-orchestrate")


def test_a_run_is_seen_and_stopped_from_elsewhere(call: Callable[..., Result], tmp_path: Path) -> None:
    """`status` shows what it does, `stop` ends it as Ctrl-C would, `watch` ends with its exit code."""
    told = tmp_path / "told"
    hook = f"sh -c 'echo $GPUBENCH_EXIT_CODE $GPUBENCH_VERDICT $GPUBENCH_REPORT > {told}'"
    node = begin(tmp_path / FOLDER, "--on-failure", hook)
    status = json.loads(call("status", "--json").stdout)
    assert (status["standing"], status["pid"], status["planned"]) == (Standing.RUNNING, node.process.pid, 2)
    assert [work["cell"] for work in status["working"]] == ["endless fault fp32"]
    watching = watch(node)
    asked = call("stop")
    assert (asked.exit_code, f"Process {node.process.pid} " in asked.stdout) == (0, True), asked.output
    node.until(lambda: len(node.of(StopRequest)) == 1)
    assert "stop requested" in call("status").stdout
    assert any(re.search("warning: .*stop", line) for line in watching.stdout)
    assert call("stop").exit_code == 0
    seen, _ = watching.communicate(timeout=60)
    assert watching.returncode == 4
    node.ended(4)  # after `watch`, which reads files of the folder as long as it runs
    assert len(node.of(StopRequest)) == 2, "asked, and asked again"
    assert told.read_text() == f"4 incomplete {tmp_path / FOLDER / 'out' / 'report.json'}\n"
    assert not any(line.rstrip().endswith("warning:") for line in seen.splitlines())
    assert call("stop").exit_code == 2, "no process works on it"


def test_a_dead_run_is_shown_as_such_and_a_watched_run_is_left_alone(
    call: Callable[..., Result], tmp_path: Path
) -> None:
    """Ctrl-C ends `watch` alone; a suspended run hears `stop` when continued; a killed run is dead."""
    node = begin(tmp_path / FOLDER)
    watching = watch(node)
    watching.send_signal(signal.SIGINT)
    rest, _ = watching.communicate(timeout=30)
    assert watching.returncode == 4
    assert "gpubench-orchestrate status" in rest
    assert node.process.poll() is None
    node.kill(signal.SIGSTOP)
    os.waitid(os.P_PID, node.process.pid, os.WSTOPPED | os.WNOWAIT)
    asked = call("stop", str(FOLDER))
    assert asked.exit_code == 0, asked.output
    assert "SIGSTOP, state T" in asked.stdout
    assert f"`kill -CONT {node.process.pid}`" in asked.stdout
    node.kill(signal.SIGCONT)
    node.until(lambda: len(node.of(StopRequest)) == 1)
    node.kill()
    assert json.loads(call("status", "--json", str(FOLDER)).stdout)["standing"] == Standing.DIED
    assert call("stop", str(FOLDER)).exit_code == 2
    watched = call("watch", str(FOLDER))
    assert (watched.exit_code, "`gpubench-orchestrate resume " in watched.stdout) == (4, True)
