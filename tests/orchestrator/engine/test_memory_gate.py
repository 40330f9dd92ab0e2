"""A device goes when its memory is back: who is asked, and what happens when nobody answers."""

import os
import socket
import time
from pathlib import Path

import pytest

from orchestrator.engine.launches.live import Gone
from orchestrator.engine.memory_gate import TIMEOUT_S, Gates
from orchestrator.gpu.telemetry.client import Telemetry
from orchestrator.state.failure_policy import POLICY
from orchestrator.system.process_end import Exit
from protocol import codec
from protocol.failure import Category
from protocol.messages import AwaitFree, DeviceFree
from tests.fakes.conducting import conducting
from tests.fakes.runs import gpus

MIB = 2**20
FIRST, SECOND = (device.uuid for device in gpus(2))


def asked(process: socket.socket) -> list[str]:
    """The GPUs that the telemetry process was asked about since the last call."""
    found = []
    while True:
        try:
            found.append(codec.decode(process.recv(4096), AwaitFree).uuid)
        except BlockingIOError:
            return found


@pytest.mark.parametrize("before", [0, 500 * MIB])
def test_a_device_is_free_at_what_was_in_use_before_and_what_a_driver_may_keep(tmp_path: Path, before: int) -> None:
    """64 MiB more than when the run began are borne, and no more: a context that nobody holds takes hundreds."""
    devices = gpus(1, memory_used_bytes=before)
    ours, process = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, process, conducting(tmp_path / "run", devices) as held:
        gates = Gates(devices)
        (live,) = held.live.values()
        telemetry = Telemetry(os.getpid(), ours)
        assert gates.admit(Gone(live, Exit(0, None), unkillable=False), telemetry, time.monotonic()) is None
        assert codec.decode(process.recv(4096), AwaitFree).limit_bytes == before + 64 * MIB
        assert gates.limit_bytes(FIRST) == before + 64 * MIB


@pytest.mark.parametrize(
    ("free", "used_bytes", "may_be_used"),
    [(True, 0, True), (False, 500 * MIB, False), (False, None, True)],
    ids=["free", "in use", "unreadable"],
)
def test_a_device_whose_memory_is_in_use_must_not_be_used(
    tmp_path: Path, free: bool, used_bytes: int | None, may_be_used: bool
) -> None:
    """The next cell would be measured wrongly. A GPU whose memory cannot be read passes."""
    devices = gpus(1, memory_used_bytes=0)
    ours, process = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, process, conducting(tmp_path / "run", devices) as held:
        gates = Gates(devices)
        gone = Gone(held.live[FIRST], Exit(0, None), unkillable=False)
        assert gates.admit(gone, Telemetry(os.getpid(), ours), time.monotonic()) is None
        passed = gates.answered(DeviceFree(uuid=FIRST, free=free, used_bytes=used_bytes, at_ns=1))
    assert passed is not None
    assert (passed.obstacle == "") is may_be_used


def test_the_policy_names_the_time_that_is_waited() -> None:
    """docs/failures.md promises it."""
    assert POLICY[Category.DEVICE_NOT_FREED].seen.startswith(f"{TIMEOUT_S:.0f} s ")


def test_who_never_answers_is_not_asked_again(tmp_path: Path) -> None:
    """An NVML that hangs costs one wait and not one for every cell; who answers in time is asked the next time too."""
    devices = gpus(2, memory_used_bytes=0)
    ours, process = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process.setblocking(False)
    with ours, process, conducting(tmp_path / "run", devices) as held:
        telemetry, gates = Telemetry(os.getpid(), ours), Gates(devices)
        gone = {uuid: Gone(live, Exit(0, None), unkillable=False) for uuid, live in held.live.items()}
        assert [gates.admit(gone[uuid], telemetry, time.monotonic()) for uuid in (FIRST, SECOND)] == [None, None]
        assert asked(process) == [FIRST, SECOND]
        passed = gates.answered(DeviceFree(uuid=SECOND, free=True, used_bytes=0, at_ns=1))
        assert passed is not None
        assert gates.overdue(time.monotonic() + TIMEOUT_S) == []
        assert gates.admit(gone[SECOND], telemetry, time.monotonic()) is None
        assert asked(process) == [SECOND]
        silent = gates.overdue(time.monotonic() + TIMEOUT_S + 6.0)
        assert [(one.device.uuid, one.obstacle) for one in silent] == [(FIRST, ""), (SECOND, "")]
        passed = gates.admit(gone[SECOND], telemetry, time.monotonic())
        assert passed is not None
        assert passed.obstacle == ""
        assert asked(process) == []
