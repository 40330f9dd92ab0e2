"""orchestrator/system/process_end.py: orphans of a run, and processes that end with their parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.system import host, process_end
from protocol.exit_codes import WorkerExit
from tests.fakes.commands import python

WORKER = """
import os, subprocess, sys, time
log = open(sys.argv[1], "w")
ours = subprocess.Popen(["sleep", "1000"], stdout=log)
elsewhere = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(ours.pid, elsewhere.pid, flush=True)
time.sleep(1000)
"""


def test_orphans_hold_a_file_of_the_run(tmp_path: Path) -> None:
    """Of two processes in the session of a dead worker, only the one with an open file in the run's folder."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path / "stdout.log")], stdout=subprocess.PIPE, start_new_session=True
    ) as worker:
        ours, elsewhere = map(int, worker.stdout.readline().split())
        identity = (worker.pid, host.start_ticks(worker.pid) or 0)
        worker.kill()
    try:
        assert [pid for pid, _ in process_end.orphans([identity], tmp_path)] == [ours]
        assert process_end.holds(ours, tmp_path)
        assert not process_end.holds(elsewhere, tmp_path)
    finally:
        for pid in (ours, elsewhere):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("from worker import adopt; adopt.die_with_parent(os.getppid() + 1)", WorkerExit.NOT_ADOPTED),
        ("from worker import adopt; adopt._await_parent(-1, born_of=-1)", WorkerExit.NOT_ADOPTED),
        ("from orchestrator.system import process_start as spawn; spawn.die_with(os.getppid() + 1)", 1),
        ("from worker import adopt; adopt.die_with_parent(os.getppid())", 0),
    ],
)
def test_a_process_without_its_parent_ends_at_once(tmp_path: Path, call: str, code: int) -> None:
    """The kernel reports the death of a parent only to processes that asked before it."""
    assert python("-c", f"import os; {call}", cwd=tmp_path).returncode == code
