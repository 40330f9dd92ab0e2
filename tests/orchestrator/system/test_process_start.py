"""orchestrator/system/process_start.py and ending.py: children that are reaped, each by its owner."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.system import process_start
from tests.fakes.commands import ROOT, python
from tests.fakes.configurations import configuration

ORPHANS = """
import json, os
from orchestrator.system import process_end as ending, process_start as spawn

def ended(code):
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"exit {code}"], os.environ)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid

known, orphans = ended(7), [ended(0), ended(0)]
living = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
found = []
while (pid := ending.reap_orphan({known, None})) is not None:
    found.append(pid)
os.kill(living, 9)
print(json.dumps({"orphans": sorted(orphans), "found": sorted(found), "known": ending.reap(known).code,
                  "living": ending.reap(living).signal, "then": ending.reap_orphan(set())}))
"""


def test_orphans_are_reaped_after_a_child_with_an_owner(tmp_path: Path) -> None:
    """A known child that has ended is left to its owner, and does not hide orphans that ended after it."""
    done = python("-c", ORPHANS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["found"] == seen["orphans"]
    assert (seen["known"], seen["living"], seen["then"]) == (7, 9, None)


FORK_OF_THE_DEAD = """
import os, signal
from pathlib import Path
from orchestrator.system import process_start as spawn
from protocol.messages import LaunchSpec

zygote = spawn.Zygote((), Path("zygote.log"), spawn.ONE_THREAD)
os.kill(zygote.pid, signal.SIGKILL)
os.waitid(os.P_PID, zygote.pid, os.WEXITED | os.WNOWAIT)
zygote.fork(LaunchSpec(launch=0, token="t", endpoint="ipc://nowhere", parent_pid=os.getpid(), folder=".",
                       environment={}, cpus=(), isolation="fork", requested_ns=0, root=str(spawn.rooms_root())))
try:
    while zygote.receive() is None:
        pass
except EOFError:
    print(zygote.close().description)
"""


STOPPED_ZYGOTE = """
import os, signal, time
from pathlib import Path
from orchestrator.system import process_start as spawn
zygote = spawn.Zygote((), Path("zygote.log"), spawn.ONE_THREAD)
os.kill(zygote.pid, signal.SIGSTOP)
print(zygote.pid, flush=True)
time.sleep(60)
"""


def test_a_stopped_zygote_ends_with_its_parent(tmp_path: Path) -> None:
    """Also while Python starts in it: the kernel ends it."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED_ZYGOTE], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    ) as parent:
        zygote = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        assert psutil.wait_procs([zygote], timeout=20)[1] == []


NOT_TO_BE_REAPED = """
import os, signal, subprocess
from pathlib import Path
from orchestrator.system import process_start as spawn
zygote = spawn.Zygote((), Path("zygote.log"), spawn.ONE_THREAD)
os.kill(zygote.pid, signal.SIGKILL)
os.waitid(os.P_PID, zygote.pid, os.WEXITED | os.WNOWAIT)
subprocess.run(["true"])  # which looks after whatever subprocess has started and nobody waited for
print(zygote.close().description)
"""


def test_the_end_of_a_zygote_is_read_by_its_owner(tmp_path: Path) -> None:
    """Also after a fork request to a dead one, and after subprocess has reaped its own children."""
    done = python("-c", FORK_OF_THE_DEAD, cwd=tmp_path)
    assert done.stdout == "killed by SIGKILL\n", done.stderr
    done = python("-W", "error", "-c", NOT_TO_BE_REAPED, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("killed by SIGKILL\n", "")


def test_the_compile_cache_is_beside_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the user has set another place, or it is not writable."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    made = process_start.environment_of_workers(tmp_path / "not" / "yet")
    assert made == process_start.ONE_THREAD | {"TORCHINDUCTOR_CACHE_DIR": f"{tmp_path}/not/yet/inductor"}
    assert list(tmp_path.iterdir()) == []
    assert process_start.environment_of_workers(Path("/proc/cache")) == process_start.ONE_THREAD
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/theirs")
    assert process_start.environment_of_workers(tmp_path) == process_start.ONE_THREAD


@pytest.mark.parametrize("cache", ["cache", "/proc/cache"])
def test_threads_of_a_burn_in_sleep_while_they_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    """They would spin on cores that others use; other runs measure as torch does by itself."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    other, asleep = process_start.environment_of_workers(tmp_path / cache), BURN_IN.worker_environment(configuration())
    assert process_start.environment_of_workers(tmp_path / cache, asleep) == other | {"OMP_WAIT_POLICY": "PASSIVE"}
    assert "OMP_WAIT_POLICY" not in other
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert process_start.environment_of_workers(tmp_path / cache, asleep) == other


def test_another_interpreter_finds_our_rooms_and_nothing_else(tmp_path: Path) -> None:
    """By links, which lead to the folder that a worker reports as its own; a second launch finds them there."""
    place = process_start.rooms_alone(tmp_path)
    assert process_start.rooms_alone(tmp_path) == place
    assert sorted(path.name for path in place.iterdir()) == ["protocol", "worker"]
    code = "from worker import adopt; print(adopt.rooms_root())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env={"PYTHONPATH": str(place)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(process_start.rooms_root())
