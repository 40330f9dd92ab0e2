"""`doctor` on the machine around the GPUs: from given facts, recorded control groups, and real limits."""

import re
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orchestrator.doctor import Level, machine
from orchestrator.doctor.machine import GIB, Disk, Facts
from orchestrator.system import cgroups
from orchestrator.system.cgroups import Limits
from tests.fakes.node import ROOT

WELL = Facts(
    cores=64,
    cores_of_machine=64,
    memory_available=512 * GIB,
    disks=(Disk(what="runs", folder="runs", free_bytes=100 * GIB),),
    shm_bytes=64 * GIB,
    ulimits={"-n": 1024, "-u": -1, "-v": -1, "-f": -1},
)


def disk(what: str, folder: str | None, **state: object) -> dict[str, object]:
    """A machine with one disk."""
    return {"disks": (Disk(what=what, folder=folder, **state),)}


def test_a_machine_with_enough_of_everything() -> None:
    """Nothing but what is well."""
    assert {found.level for found in machine.judge(WELL, gpus=8)} == {Level.OK}


@pytest.mark.parametrize(
    ("changes", "level", "words", "fix"),
    [
        ({"cores": 8}, Level.WARNING, "8 of 64", "--solo"),
        ({"allowed": Limits(cores=1.5)}, Level.WARNING, "1.5", "--cpuset-cpus"),
        ({"allowed": Limits(memory_bytes=4 * GIB)}, Level.WARNING, "4.0 GiB", "more memory"),
        ({"memory_available": 4 * GIB}, Level.WARNING, "4.0 GiB", "--solo"),
        ({"shm_bytes": 64 * 2**20}, Level.WARNING, "/dev/shm has 64 MiB", "--shm-size"),
        ({"allowed": Limits(processes=100)}, Level.WARNING, "100 processes", "--pids-limit"),
        ({"ulimits": {"-n": 256}}, Level.WARNING, "256 open files", "ulimit -n 1024"),
        ({"ulimits": {"-v": 64 * GIB}}, Level.BROKEN, "64 GiB", "unlimited"),
        ({"ulimits": {"-f": 2**20}}, Level.WARNING, "1 MiB", "ulimit -f unlimited"),
        (disk("runs", "r", free_bytes=2**28), Level.WARNING, "0.2 GiB free", "Free"),
        (disk("runs", "r", free_bytes=2**20), Level.BROKEN, "0.0 GiB free", "Free"),
        (disk("weights", "/c", wrong="Read-only file system"), Level.BROKEN, "Read-only file system", "XDG_CACHE_HOME"),
        (disk("temporary files", None, wrong="no folder"), Level.BROKEN, "no folder", "TMPDIR"),
        ({"sockets_wrong": "no folder. Set XDG_RUNTIME_DIR."}, Level.BROKEN, "no folder", "XDG_RUNTIME_DIR"),
    ],
)
def test_each_shortage_has_a_remedy(changes: dict[str, object], level: Level, words: str, fix: str) -> None:
    """In one finding."""
    found = machine.judge(msgspec.structs.replace(WELL, **changes), gpus=8)
    [trouble] = [one for one in found if one.level is not Level.OK]
    assert trouble.level is level
    assert words in trouble.message
    assert fix in trouble.fix


# ── control groups ────────────────────────────────────────────────────────────────────────────────────────────────────


def recorded(folder: Path, own: str, files: dict[str, str]) -> Limits:
    """The limits in such files."""
    (folder / "own").write_text(own)
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return cgroups.limits(folder / "cgroup", folder / "own")


def test_version_two_is_read_up_to_the_root(tmp_path: Path) -> None:
    """The tightest limit on the way holds."""
    found = recorded(
        tmp_path,
        "0::/slurm/job_1/step_0\n",
        {
            "slurm/job_1/step_0/memory.max": "max",
            "slurm/job_1/step_0/cpu.max": "max 100000",
            "slurm/job_1/memory.max": str(32 * GIB),
            "slurm/memory.max": str(64 * GIB),
            "slurm/cpu.max": "150000 100000",
            "slurm/pids.max": "512",
        },
    )
    assert found == Limits(memory_bytes=32 * GIB, cores=1.5, processes=512)


def test_version_one_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    """In a container the path is that of the host, and only the root is there."""
    found = recorded(
        tmp_path,
        "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n3:pids:/docker/abc\n1:name=systemd:/docker/abc\n",
        {
            "memory/memory.limit_in_bytes": str(8 * GIB),
            "cpu/cpu.cfs_quota_us": "200000",
            "cpu/cpu.cfs_period_us": "100000",
            "pids/pids.max": "max",
        },
    )
    assert found == Limits(memory_bytes=8 * GIB, cores=2.0)


def test_no_limit_is_none(tmp_path: Path) -> None:
    """Version 1 writes the largest number that it has, and -1."""
    found = recorded(
        tmp_path,
        "5:memory:/\n4:cpu,cpuacct:/\n",
        {"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"},
    )
    assert found == Limits()
    assert cgroups.limits(tmp_path / "nothing", tmp_path / "nothing either") == Limits()


# ── the real thing ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_real_limits_are_read(tmp_path: Path) -> None:
    """Of the process itself, and of the given folder."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "doctor", "--runs-folder", str(tmp_path / "made" / "later")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    )
    words = " ".join(done.stdout.split())
    assert re.search("256 open files .*ulimit -n 1024", words)
    assert f"folder {tmp_path / 'made' / 'later'}" in words
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_found_by_trying(tmp_path: Path) -> None:
    """Permissions do not restrict root: here a file stands in the place of the folder."""
    (tmp_path / "runs").write_text("")
    [runs] = [disk for disk in machine.look(str(tmp_path / "runs")).disks if disk.what == "runs"]
    assert (runs.free_bytes, runs.wrong) == (None, "Not a directory")
