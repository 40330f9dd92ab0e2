"""What `doctor` says of the machine around the GPUs: from made-up facts, recorded control groups, and real limits."""

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


def test_a_machine_with_enough_of_everything() -> None:
    """Nothing but what is well."""
    assert {found.level for found in machine.judge(WELL, gpus=8)} == {Level.OK}


@pytest.mark.parametrize(
    ("changes", "level", "words", "fix"),
    [
        ({"cores": 8}, Level.WARNING, "8 of 64 for 8 GPUs: each needs one", "--solo"),
        ({"allowed": Limits(cores=1.5)}, Level.WARNING, "CPU time for 1.5 alone", "--cpuset-cpus"),
        ({"allowed": Limits(memory_bytes=4 * GIB)}, Level.WARNING, "the control group allows 4.0 GiB", "more memory"),
        ({"memory_available": 4 * GIB}, Level.WARNING, "4.0 GiB available: little for 8 devices", "--solo"),
        ({"shm_bytes": 64 * 2**20}, Level.WARNING, "/dev/shm has 64 MiB", "--shm-size"),
        ({"allowed": Limits(processes=100)}, Level.WARNING, "100 processes and threads for 8", "--pids-limit"),
        ({"ulimits": {"-n": 256}}, Level.WARNING, "ulimit -n allows 256 open files", "ulimit -n 1024"),
        ({"ulimits": {"-v": 64 * GIB}}, Level.BROKEN, "64 GiB of address space: CUDA reserves more", "unlimited"),
        ({"ulimits": {"-f": 2**20}}, Level.WARNING, "files of 1 MiB", "ulimit -f unlimited"),
        (
            {"disks": (Disk(what="runs", folder="r", free_bytes=2**28),)},
            Level.WARNING,
            "0.2 GiB free in r",
            "free some",
        ),
        ({"disks": (Disk(what="runs", folder="r", free_bytes=2**20),)}, Level.BROKEN, "0.0 GiB free in r", "free some"),
        (
            {"disks": (Disk(what="weights", folder="/c", wrong="Read-only file system"),)},
            Level.BROKEN,
            "/c, for weights, cannot be written: Read-only file system",
            "XDG_CACHE_HOME",
        ),
        (
            {"disks": (Disk(what="temporary files", folder=None, wrong="no temporary folder can be written"),)},
            Level.BROKEN,
            "no temporary folder can be written",
            "TMPDIR",
        ),
        ({"sockets_wrong": "no folder. Set XDG_RUNTIME_DIR."}, Level.BROKEN, "no folder", "Set XDG_RUNTIME_DIR."),
    ],
)
def test_what_is_short_is_named_with_what_to_do(changes: dict[str, object], level: Level, words: str, fix: str) -> None:
    """One finding, all else being well."""
    found = machine.judge(msgspec.structs.replace(WELL, **changes), gpus=8)
    [trouble] = [one for one in found if one.level is not Level.OK]
    assert trouble.level is level
    assert words in trouble.words
    assert fix in trouble.fix


# ── control groups ────────────────────────────────────────────────────────────────────────────────────────────────────


def recorded(folder: Path, own: str, files: dict[str, str]) -> Limits:
    """The limits that such files mean."""
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
    """Those of the process that asks, and the folder that it was told."""
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
    assert "ulimit -n allows 256 open files a process do: ulimit -n 1024" in words
    assert f"free in {tmp_path / 'made' / 'later'}, for runs" in words
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_found_by_trying(tmp_path: Path) -> None:
    """Not by its permissions, which say nothing to root: here a file stands where the folder would be."""
    (tmp_path / "runs").write_text("")
    [runs] = [disk for disk in machine.look(str(tmp_path / "runs")).disks if disk.what == "runs"]
    assert (runs.free_bytes, runs.wrong) == (None, "Not a directory")
