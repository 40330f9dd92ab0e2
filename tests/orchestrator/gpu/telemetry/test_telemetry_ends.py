"""The telemetry process on a fake NVML always ends."""

import os
import resource
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.engine import run
from orchestrator.engine.display_events import Notice
from orchestrator.gpu.telemetry.client import Telemetry
from orchestrator.system.process_end import Exit
from protocol.messages import Digest
from tests.fakes.displays import RecordingDisplay
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.spies import spy
from tests.fakes.telemetry import PATIENCE_S, hear, sampling

PARENT = """
import os, signal, sys, time
from pathlib import Path
from orchestrator.gpu.telemetry.client import Telemetry
telemetry = Telemetry.start([sys.argv[2]], Path(sys.argv[1]), 20)
if "stopped" in sys.argv:
    os.kill(telemetry.pid, signal.SIGSTOP)
while "stopped" not in sys.argv and not telemetry.receive():
    time.sleep(0.01)
print(telemetry.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Three GPUs, seen by the children of this process."""
    fake = FakeNvml(tmp_path, gpus=3)
    fake.install(monkeypatch)
    return fake


def descriptors() -> set[Path]:
    """Descriptors that this process has open (and the one that lists them)."""
    return set(Path("/proc/self/fd").iterdir())


def has_ended(pid: int) -> bool:
    """Wait until a process that is not our child is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    ended = bool(poller.poll(PATIENCE_S * 1000))
    os.close(pidfd)
    return ended


def test_write_errors_at_the_end_are_reported(fake: FakeNvml, tmp_path: Path) -> None:
    """With a full disk, its last messages arrive, and `stop` keeps them."""
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, Digest)
        resource.prlimit(telemetry.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert telemetry.stop() == Exit(code=0, signal=None)
        reasons = telemetry.last_words
        assert sum("health" in reason for reason in reasons) == 1
        assert telemetry.stop() == Exit(code=0, signal=None)
        assert telemetry.last_words == reasons
    display = RecordingDisplay()
    run._end_telemetry(telemetry, display)
    assert [(notice.level, notice.message) for notice in display.given if isinstance(notice, Notice)] == [
        ("warning", f"no GPU readings: {reason}") for reason in reasons
    ]


@pytest.mark.parametrize("state", ["working", "stopped"])
def test_it_ends_when_its_parent_is_killed(fake: FakeNvml, tmp_path: Path, state: str) -> None:
    """Also while it is stopped as Python starts in it, and cannot see its socket close."""
    command = [sys.executable, "-c", PARENT, str(tmp_path), uuid(0), state]
    with subprocess.Popen(command, env=fake.environment, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        assert has_ended(pid)


def test_stop_reaps_it_and_may_be_called_again(fake: FakeNvml, tmp_path: Path) -> None:
    """After stop there is no process, no zombie, and no descriptor."""
    open_before = descriptors()
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, Digest)
        first, second = telemetry.stop(), telemetry.stop()
    assert first == second == Exit(code=0, signal=None)
    assert not Path(f"/proc/{telemetry.pid}").exists()
    assert descriptors() == open_before


DEAF = """
import signal, socket, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
socket.socket(fileno=0).send(b"deaf")
time.sleep(1000)
"""


def test_sigterm_comes_before_sigkill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poller of NVML that was killed once froze an A100: SIGTERM comes first, also where it will not help."""
    monkeypatch.setattr("orchestrator.gpu.telemetry.client._PATIENCE_S", 0.1)
    sent = spy(monkeypatch, signal, "pidfd_send_signal", lambda _, _pidfd, number: number)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", DEAF], stdin=theirs)
    assert ours.recv(10) == b"deaf"
    ours.setblocking(False)
    assert Telemetry(process.pid, ours).stop() == Exit(code=None, signal=signal.SIGKILL)
    process.returncode = -signal.SIGKILL  # reaped above
    assert sent == [signal.SIGTERM, signal.SIGKILL]


def test_a_stopped_process_is_killed(fake: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither sees its socket close nor takes a SIGTERM."""
    monkeypatch.setattr("orchestrator.gpu.telemetry.client._PATIENCE_S", 0.2)
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, Digest)
        os.kill(telemetry.pid, signal.SIGSTOP)
        assert telemetry.stop() == Exit(code=None, signal=signal.SIGKILL)
    assert not Path(f"/proc/{telemetry.pid}").exists()
