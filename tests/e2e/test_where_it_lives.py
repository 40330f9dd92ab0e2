"""The places where a run must live: users without name and home, read-only roots, dead terminals, parts of a node."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import faults, gpu_runs
from tests.fakes.cuda import beside
from tests.fakes.node import NOTHING, ROOT, Node, leftovers
from tests.fakes.nvml import FakeNvml, uuid

NOBODY = 54321
"""A user that no machine knows: what containers run as under `docker run --user` and in OpenShift."""

OPTIONS = "--gpu-ids cpu:0 -m lstm -b 1 --phases load -i 2 -w 1 --launches 1 --quiet"
RUN = ("-m", "orchestrator", *OPTIONS.split())
"""A run of one cell, whose weights need a place too."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users may enter; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="gpubench-place-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user, or mount")


def bare(**environment: str) -> Mapping[str, str]:
    """An environment as a container's: no home, no user, no caches, nothing of ours but the way to the checkout."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | environment


def called(*command: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=200, **options)


def counted(report: Path) -> tuple[int, int]:
    cells = json.loads(report.read_text())["summary"]["cells"]
    return cells["ok"], cells["planned"]


def as_nobody() -> Sequence[str]:
    """Return the prefix of a command that runs as a user who may read everything and write nothing."""
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv to become another user with")
    keep = [f"--{kind}=-all,+dac_read_search" for kind in ("inh-caps", "ambient-caps")]
    become = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *keep)
    if called(*become, sys.executable, "-c", "", cwd=ROOT, env=bare()).returncode:
        pytest.skip("this machine does not let a user keep the right to read everything")
    return become


def test_a_user_without_name_and_home(place: Path) -> None:
    """No entry in /etc/passwd, no HOME: weights, sockets, runs and report find a place."""
    need_root()
    work = place / "work"
    work.mkdir()
    os.chown(work, NOBODY, NOBODY)
    ended = called(*as_nobody(), sys.executable, *RUN, cwd=work, env=bare())
    assert ended.returncode == 0, ended.stderr
    assert counted(work / "benchmark_report.json") == (1, 1)
    assert (work / "benchmark_report.json").stat().st_uid == NOBODY
    shutil.rmtree(f"/tmp/gpubench-cache-{NOBODY}")
    shutil.rmtree(f"/tmp/gpubench-{NOBODY}")


def test_a_machine_that_is_read_only(place: Path) -> None:
    """Everything that is written goes where the options say: one writable folder is enough."""
    need_root()
    script = place / "inside.sh"
    script.write_text(
        "set -e\n"
        f"mount --bind {place} {place}\n"
        "mount -t tmpfs -o ro none /dev/shm\n"
        "mount -o remount,bind,ro /\n"
        f"! touch {ROOT}/README.md 2>/dev/null\n"
        f"cd {place}\n"
        'exec "$@"\n'
    )
    unshared = ("unshare", "--mount", "sh", str(script))
    if shutil.which("unshare") is None or called(*unshared, "true", cwd=place).returncode:
        pytest.skip("mounts cannot be made here (no CAP_SYS_ADMIN)")
    written = bare(XDG_CACHE_HOME=str(place / "cache"), XDG_RUNTIME_DIR=str(place), TMPDIR=str(place))
    options = ("--runs-folder", str(place / "runs"), "-o", str(place / "out" / "report.json"))
    ended = called(*unshared, sys.executable, *RUN, *options, cwd=place, env=written)
    assert ended.returncode == 0, ended.stderr
    assert counted(place / "out" / "report.json") == (1, 1)


SAME_SECOND = """
import datetime, importlib, runpy, secrets, types
run, moment = importlib.import_module("orchestrator.cli.preparation"), datetime.datetime(2026, 4, 1, 21, 30)
run.datetime = types.SimpleNamespace(now=lambda: moment)
chance, names = secrets.token_hex, ["000000"]
secrets.token_hex = lambda length: names.pop() if length == 3 and names else chance(length)
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_runs_that_begin_in_the_same_second(tmp_path: Path, place: Path) -> None:
    """In one runs folder, with one report: each has its folder, though both draw the same name; no temporary files."""
    command = [sys.executable, "-c", SAME_SECOND, *RUN[2:], "--isolation"]
    environment = os.environ | bare(TMPDIR=str(place), XDG_CACHE_HOME=str(tmp_path))
    piped: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, "env": environment}
    runs = [subprocess.Popen([*command, isolation], **piped) for isolation in ("fork", "exec")]
    said = [run.communicate(timeout=200) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    folders = sorted((tmp_path / "runs").iterdir())
    assert [folder.name[:16] for folder in folders] == ["20260401-213000-"] * 2
    assert folders[0].name.endswith("-000000")
    assert [counted(folder / "report.json") for folder in folders] == [(1, 1)] * 2
    assert counted(tmp_path / "benchmark_report.json") == (1, 1)
    assert [leftovers(folder) for folder in folders] == [NOTHING] * 2
    assert [file for file in place.iterdir() if not file.name.startswith("gpubench-")] == []


def on_a_terminal(command: Sequence[str], cwd: Path, **options: Any) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, **options)
    os.close(theirs)
    return process, ours


def test_a_terminal_that_dies_ends_nothing(tmp_path: Path) -> None:
    """EIO on both streams and a hang-up in the middle: everything is measured, reported and told, with exit code 0."""
    folder, told = tmp_path / "run", tmp_path / "told"
    faults.prepare(folder, faults.model("first", seconds=0.5), faults.model("second", seconds=0.5))
    hook = f"sh -c 'echo \"$GPUBENCH_EXIT_CODE $GPUBENCH_REPORT\" > {told}'"
    process, terminal = on_a_terminal(
        [sys.executable, "-m", "orchestrator", "resume", str(folder), "--on-finish", hook],
        ROOT,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    while b"launches" not in os.read(terminal, 65536):  # until it draws
        pass
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 0
    assert counted(folder / "report.json") == (2, 2)
    assert told.read_text() == f"0 {folder / 'out' / 'report.json'}\n"
    assert leftovers(folder) == NOTHING


def test_a_part_of_the_gpus(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES, as Slurm sets it: GPU 0 is the first of ours, and no other is touched."""
    nvml, folder = FakeNvml(tmp_path, gpus=4), tmp_path / "run"
    machines = gpu_runs.find_devices(nvml, visible="3,1")
    assert [(gpu.gpu_id, gpu.uuid) for gpu in machines] == [(0, uuid(3)), (1, uuid(1))]
    faults.prepare(folder, faults.model("good"), machines=machines)
    report = Node(folder, environment=nvml.environment | beside(nvml) | {"CUDA_VISIBLE_DEVICES": "3,1"}).ended()
    assert {gpu["gpu_uuid"] for gpu in report["gpu_info"]} == {uuid(3), uuid(1)}
