"""orchestrator/system/host.py and cgroups.py: facts from the kernel's files."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from orchestrator.system import cgroups, host


def test_the_state_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel's words, with its CPU time: stopped, or in an uninterruptible sleep."""
    with subprocess.Popen(["sleep", "60"]) as child:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert host.process_state(child.pid).startswith("T (stopped), 0.0 s ")
        child.kill()
    assert host.process_state(child.pid) == ""
    monkeypatch.setattr(host, "_PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tpython3\nState:\tD (disk sleep)\nTgid:\t7\n")
    (tmp_path / "7" / "stat").write_text(f"7 (a) b) D {' '.join(['0'] * 10)} 150 50 {' '.join(['0'] * 30)}\n")
    assert host.process_state(7).startswith(f"D (disk sleep), {200 / os.sysconf('SC_CLK_TCK'):.1f} s ")


def test_processes_and_boots_have_identities() -> None:
    """The same PID at another start time is another process; one that does not exist has none."""
    with subprocess.Popen(["sleep", "60"]) as child:
        assert host.start_ticks(child.pid) == host.start_ticks(child.pid)
        assert host.start_ticks(child.pid) >= host.start_ticks(os.getpid())  # type: ignore[operator]  # both exist
        child.kill()
    assert host.start_ticks(child.pid) is None
    assert host.boot_id() == host.boot_id() != ""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.events": "low 0\nhigh 0\nmax 5\noom 2\noom_kill 3\n", "vmstat": "oom_kill 9\n"}, 3),
        ({"vmstat": "nr_free_pages 1\noom_kill 9\n"}, 9),
        ({"vmstat": "nr_free_pages 1\n"}, None),
        ({"memory/user.slice/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"}, 4),
        ({"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"}, 5),
    ],
)
def test_oom_kills_are_counted_where_the_kernel_counts_them(
    tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    """In our own cgroup of either version first, else on the whole host; None where no kernel file counts.

    In a container, our own cgroup of version 1 is the uppermost one.
    """
    version1 = "9:name=systemd:/\n8:memory:/user.slice\n3:cpu,cpuacct:/user.slice\n"
    cgroup = version1 if "vmstat" not in files else "0::/\n"
    for name, text in (files | {"cgroup": cgroup}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cgroups.oom_kills(tmp_path, tmp_path / "cgroup", tmp_path / "vmstat") == expected
