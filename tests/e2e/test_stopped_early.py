"""SIGTERM before anything is measured: the command ends gently, with its exit code, and tells whoever wants to know."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.store.journal import read
from orchestrator.store.journal_records import Finished, Start
from protocol.exit_codes import ExitCode
from tests.fakes import faults
from tests.fakes.commands import TINY, python
from tests.fakes.node import NOTHING, ROOT, leftovers

STRUCK = """
import importlib, os, signal, sys
module, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
owner = importlib.import_module(module)
if "." in name:
    owner, name = getattr(owner, name.partition(".")[0]), name.partition(".")[2]
before = getattr(owner, name)
def struck(*arguments, **named):
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGTERM)
    importlib.import_module("orchestrator.engine.readiness").check = None  # whoever stops does not wait for a driver
    return before(*arguments, **named)
setattr(owner, name, struck)
from orchestrator.cli.commands import orchestrate
orchestrate(sys.argv[4:], prog_name="gpubench-orchestrate")
"""
"""The command, which gets SIGTERM so many times at the moment in which it calls a function."""

EARLY = ["orchestrator.config.resolution resolve", "orchestrator.gpu.cuda_probe require"]
BEGUN = [
    "orchestrator.store.folders make_run",
    "orchestrator.engine.readiness check",
    "orchestrator.engine.launches.zygote_client ZygoteClient.start",
]


def struck(where: str, *arguments: str, cwd: Path, times: int = 1) -> subprocess.CompletedProcess[str]:
    """The command to its end; what the hook was told is in the file `told`."""
    told = ("--on-failure", "sh -c 'echo \"$GPUBENCH_EXIT_CODE|$GPUBENCH_VERDICT|$GPUBENCH_RUN_FOLDER\" >> told'")
    words = ("-c", STRUCK, *where.split(), str(times), *arguments, *told)
    return python(*words, cwd=cwd, XDG_CACHE_HOME=str(cwd / "cache"))


@pytest.mark.parametrize("where", EARLY)
def test_a_command_is_stopped_before_there_is_a_run(tmp_path: Path, where: str) -> None:
    """It says so, leaves no run, and the hook is called."""
    ended = struck(where, *TINY, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.INCOMPLETE, "")
    assert ended.stderr == "error: interrupted\n"
    assert (tmp_path / "told").read_text() == "4||\n"
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("where", BEGUN)
def test_a_run_is_stopped_before_its_first_launch(tmp_path: Path, where: str) -> None:
    """From the moment in which it has a folder it ends with a report and its line; nothing is launched."""
    ended = struck(where, *TINY, "--quiet", cwd=tmp_path)
    [folder] = tmp_path.glob("runs/*")
    report = tmp_path / "benchmark_report.json"
    assert ended.returncode == ExitCode.INCOMPLETE, ended.stderr
    assert re.match(f"{folder.name}: incomplete, 0 of 1 ", ended.stdout)
    assert ended.stdout.endswith(f"{report}\n")
    assert "warning: stopping: " in ended.stderr
    assert (tmp_path / "told").read_text() == f"4|incomplete|{folder}\n"
    *records, last = read(folder / "journal.gpj")
    assert isinstance(last, Finished)
    assert (last.interrupted, last.reason) == (True, "stopped on request")
    assert not any(isinstance(record, Start) for record in records)
    assert (folder / "zygote.log").exists() == ("ZygoteClient" in where)
    assert leftovers(folder) == NOTHING


def test_a_run_that_is_taken_up_is_stopped_in_the_same_way(tmp_path: Path) -> None:
    """Also where a `resume` has only read of it; what the run was to measure is left for the next one."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    ended = struck("orchestrator.store.run_files load", "resume", "run", "--quiet", cwd=tmp_path)
    assert ended.returncode == ExitCode.INCOMPLETE, ended.stderr
    assert ended.stdout.startswith("run: incomplete, 0 of 1 ")
    assert (tmp_path / "told").read_text() == f"4|incomplete|{folder}\n"


def test_asked_twice_it_ends_at_once(tmp_path: Path) -> None:
    """Before the loop begins nobody but the second request can end what hangs; the hook is called all the same."""
    ended = struck("orchestrator.engine.readiness check", *TINY, cwd=tmp_path, times=2)
    [folder] = tmp_path.glob("runs/*")
    assert ended.returncode == ExitCode.INCOMPLETE
    assert ended.stderr.endswith(" 4\nerror: interrupted\n")
    assert (tmp_path / "told").read_text() == f"4||{folder}\n"


def test_a_hook_that_hangs_is_ended_by_a_stop(tmp_path: Path) -> None:
    """Once the run is over, a request ends the command that is told of it, and nothing else."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("good"))
    command = [sys.executable, "-m", "orchestrator", "resume", str(folder), "--quiet", "--on-finish"]
    with subprocess.Popen([*command, "sh -c 'echo >&2; kill -TERM $PPID; sleep 50'"], cwd=ROOT, stderr=-1) as process:
        _, said = process.communicate(timeout=40)
    assert process.returncode == ExitCode.PASSED
    assert re.search(rb"warning: .*--on-finish was interrupted", said)
