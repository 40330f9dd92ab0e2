"""The orchestrator's end of telemetry: starts and asks the sampler process, and reads what it wrote during a launch.

The sampler writes before it reports a GPU as free, so that the samples of a launch (measurement) are on disk.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

from orchestrator.errors import StorageError
from orchestrator.gpu.telemetry.overheating import TemperatureStop
from orchestrator.gpu.telemetry.readings import NEAR_NS, Readings, readings_over
from orchestrator.gpu.telemetry.sampler import MAX_MESSAGE_BYTES, Task
from orchestrator.gpu.telemetry.samples import SampleReader
from orchestrator.system import host, process_end, process_start
from protocol import codec
from protocol.cell import Device, DeviceKind
from protocol.messages import AwaitFree, FromSampler, Sample, Unavailable
from protocol.paths import RunPaths
from protocol.result import Result

_FROM_SAMPLER: Final = codec.Decoder[FromSampler](FromSampler)
_PATIENCE_S: Final = 2.0
"""Seconds to wait after each step: closing the socket, SIGTERM, SIGKILL, which as the first step once froze an A100."""


class Telemetry:
    """A running sampler process. last_words: errors in words that it reported at its end, set by `stop`."""

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
        """Start a process that samples GPUs into `RunPaths(folder).samples(uuid)`. interval_ms: between two samples.

        stop: rule by which `receive` returns a TooHot message; None: never. hot: UUID → degrees Celsius to use instead
        of the real ones. Call it from the main thread: the sampler is killed when that thread ends. Raises StorageError
        if the folder for the samples cannot be made, OSError if no process can be started.
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
        with contextlib.suppress(EOFError):  # `receive` reports a process that died at once
            telemetry._send(task)
        ours.setblocking(False)
        return telemetry

    def fileno(self) -> int:
        """Return the descriptor that is readable when the sampler has sent a message or has ended."""
        return self._channel.fileno()

    def receive(self) -> tuple[FromSampler, ...]:
        """Return new messages, without waiting. Raises EOFError once the process is gone and all messages are read."""
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
                raise EOFError("the telemetry process ended")
            messages.append(_FROM_SAMPLER.decode(data))

    def await_free(self, uuid: str, limit_bytes: int, timeout_s: float) -> None:
        """Request a DeviceFree message, which `receive` returns later.

        It is sent when the GPU's used memory is at most `limit_bytes`, or with free=False after timeout_s seconds. If
        the memory cannot be read, it is sent at once with free=False and used_bytes=None. Raises EOFError if the
        process does not respond.
        """
        self._send(AwaitFree(uuid=uuid, limit_bytes=limit_bytes, timeout_s=timeout_s))

    def stop(self) -> process_end.Exit | None:
        """End the process after its last write, within 6 s. Return its exit; None if it hangs and survives SIGKILL."""
        with contextlib.suppress(OSError):  # closed already, or nobody is at the other end
            self._channel.shutdown(socket.SHUT_WR)
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if self._pidfd is None:
                break
            if number is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            if process_end.ends_within(self._pidfd, _PATIENCE_S):
                self._exit = process_end.reap(self.pid)
                os.close(self._pidfd)
                self._pidfd = None
        if self._channel.fileno() >= 0:
            with contextlib.suppress(EOFError):
                last = self.receive()
                self.last_words = tuple(message.reason for message in last if isinstance(message, Unavailable))
            self._channel.close()
        return self._exit

    def _send(self, message: Task | AwaitFree) -> None:
        try:
            self._channel.send(codec.encode(message))
        except (ConnectionError, BlockingIOError) as error:
            raise EOFError(f"the telemetry process does not respond: {error}") from error


class LaunchTelemetry:
    """Reads the samples of a run's GPUs as they are written."""

    def __init__(self, devices: Iterable[Device], paths: RunPaths) -> None:
        boot_id = host.boot_id()
        self._readers = {
            device.uuid: SampleReader(paths.samples(device.uuid), boot_id)
            for device in devices
            if device.kind is DeviceKind.CUDA
        }
        self._kept: dict[str, list[Sample]] = {uuid: [] for uuid in self._readers}

    def readings(self, device: Device, result: Result) -> Readings:
        """Return the readings of a device over the work of a launch (Result.worked); without telemetry, only a note.

        result: of the launch. Call this for each launch of the device, in order, after it has ended. Each call drops
        the samples taken more than 1 s before the launch's first measured block.
        """
        reader = self._readers.get(device.uuid)
        if reader is None or not result.blocks:
            return Readings(note="no telemetry was recorded")
        since_ns = result.blocks[0].start_ns - NEAR_NS
        samples = [*self._kept[device.uuid], *reader.read()]
        kept = self._kept[device.uuid] = [sample for sample in samples if sample.at_ns >= since_ns]
        return readings_over(kept, [(block.start_ns, block.end_ns) for block in result.worked])
