"""The orchestrator's end of telemetry: starts the sampler, receives its digests, asks whether a GPU is free."""

import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

from orchestrator.errors import StorageError
from orchestrator.gpu.telemetry.overheating import TemperatureStop
from orchestrator.gpu.telemetry.readings import Readings, over
from orchestrator.gpu.telemetry.sampler import MAX_MESSAGE_BYTES, Task
from orchestrator.gpu.telemetry.samples import read_samples
from orchestrator.system import process_end, process_start
from protocol import codec
from protocol.messages import AwaitFree, FromSampler, Unavailable
from protocol.paths import RunPaths

__all__ = ["Readings", "Telemetry", "over", "read_samples"]

_FROM_SAMPLER: Final = codec.Decoder[FromSampler](FromSampler)
_PATIENCE_S: Final = 2.0
"""For each step of ending it: closed socket, SIGTERM, SIGKILL. Never killed first: that once froze an A100."""


class Telemetry:
    """A running sampler. `fileno` is readable when there is something to receive, or it has ended.

    last_words: write errors reported while it ended.
    """

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self._channel = channel
        self._pidfd: int | None = os.pidfd_open(pid)
        self._exit: process_end.Exit | None = None
        self.last_words: tuple[str, ...] = ()

    @classmethod
    def start(
        cls,
        uuids: Iterable[str],
        folder: Path,
        interval_ms: int,
        stop: TemperatureStop | None = None,
        hot: Mapping[str, int] | None = None,
    ) -> Self:
        """Start sampling the GPUs into `RunPaths(folder).samples(uuid)`. stop, hot: as in Task.

        Call it from the main thread: the sampler is killed with its parent thread. Raises StorageError without a
        folder.
        """
        paths = RunPaths(folder)
        try:
            paths.telemetry.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{paths.telemetry} cannot be made: {error}") from error
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = process_start.start_module(
                "orchestrator.gpu.telemetry.sampler",
                log=paths.telemetry / "sampler.log",
                environment={},
                control=theirs,
            )
        task = Task(
            parent_pid=os.getpid(),
            root=str(process_start.rooms_root()),
            interval_ms=interval_ms,
            files={uuid: str(paths.samples(uuid).absolute()) for uuid in uuids},
            health=str(paths.health.absolute()),
            stop=stop,
            hot=dict(hot or {}),
        )
        telemetry = cls(pid, ours)
        with contextlib.suppress(EOFError):  # one that died at once is seen where it is listened to
            telemetry._send(task)
        ours.setblocking(False)
        return telemetry

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._channel.fileno()

    def receive(self) -> tuple[FromSampler, ...]:
        """What has arrived; never waits. Raises EOFError when the process is gone and everything it said was read."""
        messages: list[FromSampler] = []
        while True:
            try:
                data = self._channel.recv(MAX_MESSAGE_BYTES)
            except BlockingIOError:
                return tuple(messages)
            except ConnectionError:
                data = b""
            if not data:
                if messages:
                    return tuple(messages)
                raise EOFError("the telemetry process is gone")
            messages.append(_FROM_SAMPLER.decode(data))

    def await_free(self, uuid: str, limit_bytes: int, timeout_s: float) -> None:
        """Ask for a DeviceFree when the GPU's used memory is at or below the limit, or at the timeout.

        Without a reading of NVML the answer is free=False and used_bytes=None at once. Raises EOFError when the process
        has ended, or has not read hundreds of requests.
        """
        self._send(AwaitFree(uuid=uuid, limit_bytes=limit_bytes, timeout_s=timeout_s))

    def stop(self) -> process_end.Exit | None:
        """End the process after its last write, and return how it ended. May be called again.

        Takes at most 6 s. None for a process that hangs inside the driver and survives SIGKILL.
        """
        with contextlib.suppress(OSError):  # closed already, or nobody is at the other end
            self._channel.shutdown(socket.SHUT_WR)
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if self._pidfd is None:
                break
            if number is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            if _readable(self._pidfd, _PATIENCE_S):
                self._exit = process_end.reap(self.pid)
                os.close(self._pidfd)
                self._pidfd = None
        if self._channel.fileno() >= 0:
            with contextlib.suppress(EOFError):
                told = self.receive()
                self.last_words = tuple(message.reason for message in told if isinstance(message, Unavailable))
            self._channel.close()
        return self._exit

    def _send(self, message: Task | AwaitFree) -> None:
        try:
            self._channel.send(codec.encode(message))
        except (ConnectionError, BlockingIOError) as error:
            raise EOFError(f"the telemetry process does not listen: {error}") from error


def _readable(fd: int, patience_s: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(patience_s * 1000))
