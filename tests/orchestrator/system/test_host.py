"""orchestrator/system/host.py: what the kernel tells, read from the kernel's files."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from orchestrator.system import host


def test_a_process_is_known_by_its_start() -> None:
    """The same PID at another start time is another process; one that does not exist has none."""
    with subprocess.Popen(["sleep", "60"]) as child:
        assert host.start_ticks(child.pid) == host.start_ticks(child.pid)
        assert host.start_ticks(child.pid) >= host.start_ticks(os.getpid())  # type: ignore[operator]  # both exist
        child.kill()
    assert host.start_ticks(child.pid) is None


def test_a_process_is_seen_for_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel's words, with the time that it has computed: stopped, or out of reach in the kernel."""
    with subprocess.Popen(["sleep", "60"]) as child:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert host.process_state(child.pid) == "T (stopped), 0.0 s of CPU time"
        child.kill()
    assert host.process_state(child.pid) == ""
    monkeypatch.setattr(host, "_PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tpython3\nState:\tD (disk sleep)\nTgid:\t7\n")
    (tmp_path / "7" / "stat").write_text(f"7 (a) b) D {' '.join(['0'] * 10)} 150 50 {' '.join(['0'] * 30)}\n")
    assert host.process_state(7) == f"D (disk sleep), {200 / os.sysconf('SC_CLK_TCK'):.1f} s of CPU time"


def test_the_boot_has_an_identity() -> None:
    """It is the kernel's, and the same twice."""
    assert host.boot_id() == host.boot_id() != ""


@pytest.mark.parametrize(
    ("events", "vmstat", "expected"),
    [
        ("low 0\nhigh 0\nmax 5\noom 2\noom_kill 3\n", "oom_kill 9\n", 3),
        (None, "nr_free_pages 1\noom_kill 9\n", 9),
        (None, "nr_free_pages 1\n", None),
    ],
)
def test_oom_kills_are_counted_where_the_kernel_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: str | None, vmstat: str, expected: int | None
) -> None:
    """In our own cgroup first, else on the whole host; None where no kernel file counts."""
    if events is not None:
        (tmp_path / "memory.events").write_text(events)
    (tmp_path / "vmstat").write_text(vmstat)
    (tmp_path / "cgroup").write_text("0::/\n")
    monkeypatch.setattr(host, "_CGROUP", tmp_path)
    monkeypatch.setattr(host, "_VMSTAT", tmp_path / "vmstat")
    monkeypatch.setattr(host, "_OWN_CGROUP", tmp_path / "cgroup")
    assert host.oom_kills() == expected


@pytest.mark.parametrize(("folder", "expected"), [("memory/user.slice", 4), ("memory", 5)])
def test_oom_kills_are_counted_in_cgroups_of_version_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, expected: int
) -> None:
    """In our own where its folder is to be seen; in a container that is the uppermost."""
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "memory.oom_control").write_text(
        f"oom_kill_disable 0\nunder_oom 0\noom_kill {expected}\n", encoding="ascii"
    )
    (tmp_path / "cgroup").write_text("9:name=systemd:/\n8:memory:/user.slice\n3:cpu,cpuacct:/user.slice\n")
    monkeypatch.setattr(host, "_CGROUP", tmp_path)
    monkeypatch.setattr(host, "_OWN_CGROUP", tmp_path / "cgroup")
    assert host.oom_kills() == expected
