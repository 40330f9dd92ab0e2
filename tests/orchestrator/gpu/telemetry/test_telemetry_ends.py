"""The telemetry process, real, on an NVML of our own: that it always ends, and with which words."""

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
from tests.fakes.conducting import Quiet
from tests.fakes.nvml import FakeNvml, uuid
from tests.fakes.telemetry import PATIENCE_S, digest, hear, sampling

PARENT = """
import sys, time
from pathlib import Path
from orchestrator.system.process_end import Exit
from orchestrator.gpu.telemetry.client import Telemetry
telemetry = Telemetry.start([sys.argv[2]], Path(sys.argv[1]), 20)
while not telemetry.receive():
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


def test_what_cannot_be_written_at_the_end_is_said_all_the_same(fake: FakeNvml, tmp_path: Path) -> None:
    """The disk is full when it is asked to end: its last words are heard, and `stop` keeps them for who asks."""
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, digest)
        resource.prlimit(telemetry.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert telemetry.stop() == Exit(code=0, signal=None)
        told = telemetry.last_words
        assert sum(reason.startswith("the health of the GPUs cannot be written: ") for reason in told) == 1
        assert telemetry.stop() == Exit(code=0, signal=None)
        assert telemetry.last_words == told
    display = Quiet()
    run._end_telemetry(telemetry, display)
    assert [(notice.level, notice.message) for notice in display.told if isinstance(notice, Notice)] == [
        ("warning", f"no GPU readings: {reason}") for reason in told
    ]


def test_it_ends_when_its_parent_is_killed(fake: FakeNvml, tmp_path: Path) -> None:
    """No telemetry process outlives an orchestrator that was killed without a word."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), uuid(0)], env=fake.environment, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        assert has_ended(pid)


STOPPED_PARENT = """
import os, signal, sys, time
from pathlib import Path
from orchestrator.gpu.telemetry.client import Telemetry
telemetry = Telemetry.start([sys.argv[2]], Path(sys.argv[1]), 20)
os.kill(telemetry.pid, signal.SIGSTOP)
print(telemetry.pid, flush=True)
time.sleep(60)
"""


def test_it_ends_with_its_parent_also_while_it_is_stopped_in_its_first_moment(fake: FakeNvml, tmp_path: Path) -> None:
    """Python starts in it, it has asked the kernel for nothing yet, and it cannot see its socket close."""
    parent = subprocess.Popen(
        [sys.executable, "-c", STOPPED_PARENT, str(tmp_path), uuid(0)],
        env=fake.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        assert has_ended(pid)


def test_stop_reaps_it_and_may_be_called_again(fake: FakeNvml, tmp_path: Path) -> None:
    """After stop there is no process, no zombie, and no descriptor."""
    open_before = descriptors()
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, digest)
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


def test_it_is_asked_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poller of NVML that was killed once froze an A100: SIGTERM comes first, also where it will not help."""
    monkeypatch.setattr("orchestrator.gpu.telemetry.client._PATIENCE_S", 0.1)
    send, sent = signal.pidfd_send_signal, list[int]()

    def sending(pidfd: int, number: int) -> None:
        sent.append(number)
        send(pidfd, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", sending)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", DEAF], stdin=theirs)
    assert ours.recv(10) == b"deaf"
    ours.setblocking(False)
    assert Telemetry(process.pid, ours).stop() == Exit(code=None, signal=signal.SIGKILL)
    process.returncode = -signal.SIGKILL  # reaped above
    assert sent == [signal.SIGTERM, signal.SIGKILL]


def test_a_stopped_process_is_ended_all_the_same(
    fake: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that neither sees its socket close nor takes a SIGTERM is killed."""
    monkeypatch.setattr("orchestrator.gpu.telemetry.client._PATIENCE_S", 0.2)
    with sampling(tmp_path, 0) as telemetry:
        hear(telemetry, digest)
        os.kill(telemetry.pid, signal.SIGSTOP)
        assert telemetry.stop() == Exit(code=None, signal=signal.SIGKILL)
    assert not Path(f"/proc/{telemetry.pid}").exists()
