"""The telemetry process (sampler): reads NVML for the whole run, in a process of its own because NVML can hang.

    orchestrator ── Task, AwaitFree… ──▶ sampler ── a batch a second ──▶ telemetry/<uuid>.samples
    orchestrator ◀── Digest (1 Hz), DeviceFree, Unavailable ──┤            telemetry/health.records
    orchestrator ◀── XidSeen, GpuBroken, TooHot, ForeignSeen ─┘            SOCK_SEQPACKET, descriptor 3

The sampler never waits for the orchestrator: if the socket is full, it drops the digest and delays answers. A batch of
samples that cannot be written is lost, and the first loss of each GPU is reported. The sampler ends when the socket
closes, on SIGTERM, and with the orchestrator.
"""

import contextlib
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from orchestrator.gpu.health.watch import HealthWatch
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import NvmlError
from orchestrator.gpu.telemetry import foreign_use
from orchestrator.gpu.telemetry.overheating import HeatWatch, TemperatureStop
from orchestrator.gpu.telemetry.samples import SampleFile
from orchestrator.system import host
from protocol import codec
from protocol.messages import AwaitFree, DeviceFree, Digest, FromSampler, Sample, Unavailable

CONTROL_FD: Final = 3
MAX_MESSAGE_BYTES: Final = 256 * 1024

_HEALTH: Final = "the health of the GPUs"
_DIGEST_NS: Final = 1_000_000_000
_FREE_POLL_MS: Final = 5.0  # while a cell waits for its GPU; one reading takes some microseconds on an H200
_AWAIT_FREE: Final = codec.Decoder[AwaitFree](AwaitFree)


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """First message to the sampler. files: UUID → file of samples. health: file of health records.

    parent_pid: of the orchestrator. root: folder from which the orchestrator imported its packages. A sampler imported
    from another folder refuses to work. interval_ms: between two readings. stop: when a GPU is too hot, None for never.
    hot: UUID → degrees Celsius to use instead of the real ones (a simulated fault).
    """

    parent_pid: int
    root: str
    interval_ms: int
    files: dict[str, str]
    health: str
    stop: TemperatureStop | None = None
    hot: dict[str, int] = {}


@dataclass
class _Waiting:
    request: AwaitFree
    until_ns: int


class Sampler:
    """Samples the GPUs of one run, and answers the orchestrator's AwaitFree requests with DeviceFree."""

    def __init__(self, nvml: Nvml, channel: socket.socket, task: Task) -> None:
        self._nvml = nvml
        self._channel = channel
        self._uuids = tuple(task.files)
        self._interval_ns = task.interval_ms * 1_000_000
        self._next_ns = self._digest_ns = time.monotonic_ns()
        self._outbox: deque[FromSampler] = deque()
        self._waiting: dict[str, _Waiting] = {}
        self._over: list[str] = []
        self._unwritten: dict[str, list[Sample]] = {uuid: [] for uuid in self._uuids}
        self._complained: set[str] = set()
        self._files = self._opened(task.files)
        self._health: HealthWatch | None = None
        with self._complaining(_HEALTH):
            self._health = HealthWatch(nvml, self._uuids, Path(task.health))
        self._lookout = foreign_use.Lookout(nvml, task.parent_pid)
        self._look_out_ns = 0
        self._hot = task.hot
        self._heat = None if task.stop is None else HeatWatch(nvml, task.stop, task.hot)

    def run(self) -> None:
        """Sample GPUs and answer requests until the socket closes. Then write unwritten samples and close the files."""
        poller = select.poll()
        poller.register(self._channel, select.POLLIN)
        while True:
            self._sample_if_due()
            self._answer_waiting()
            self._send_answers()
            self._look_at_the_free()
            poller.poll(self._pause_ms())
            if not self._receive():
                break
        self._write()
        for file in self._files.values():
            file.close()
        if self._health is not None:
            with self._complaining(_HEALTH):
                self._health.close()
        self._send_answers()  # a write error while ending is still reported

    def _sample_if_due(self) -> None:
        now = time.monotonic_ns()
        if now < self._next_ns:
            return
        # A late tick does not shift those after it.
        self._next_ns += ((now - self._next_ns) // self._interval_ns + 1) * self._interval_ns
        newest = {uuid: self._read(uuid) for uuid in self._uuids}
        for uuid, sample in newest.items():
            self._unwritten[uuid].append(sample)
        if self._health is not None:
            with self._complaining(_HEALTH):
                self._outbox.extend(self._health.tick(now))
        if now >= self._look_out_ns:
            self._look_out_ns = now + foreign_use.LOOK_NS
            for uuid in self._uuids:
                self._look_out(uuid)
        if self._heat is not None:
            self._outbox.extend(self._heat.look(newest, now))
        if now >= self._digest_ns:
            self._digest_ns = now + _DIGEST_NS - self._interval_ns // 2
            self._write()
            if not self._outbox:
                self._send(Digest(samples=newest))

    def _look_out(self, uuid: str) -> None:
        if (seen := self._lookout.look(uuid, time.monotonic_ns())) is not None:
            self._outbox.append(seen)

    def _read(self, uuid: str) -> Sample:
        """Read one GPU. If NVML fails, the sample has no values, so that its gap shows and the other GPUs are read."""
        try:
            sample = self._nvml.read(uuid)
        except NvmlError:
            return Sample(at_ns=time.monotonic_ns())
        return msgspec.structs.replace(sample, temperature_c=self._hot[uuid]) if uuid in self._hot else sample

    def _look_at_the_free(self) -> None:
        """Read the health of GPUs whose DeviceFree was just sent.

        It is not read before, because the orchestrator waits for the DeviceFree.
        """
        over, self._over = self._over, []
        if self._health is not None:
            with self._complaining(_HEALTH):
                for uuid in over:
                    self._outbox.extend(self._health.look_at(uuid))

    def _answer_waiting(self) -> None:
        for uuid, waiting in tuple(self._waiting.items()):
            used, now = self._memory_used(uuid), time.monotonic_ns()
            free = used is not None and used <= waiting.request.limit_bytes
            if free or used is None or now >= waiting.until_ns:
                del self._waiting[uuid]
                self._complete(uuid)
                self._look_out(uuid)  # before the answer, which lets the launch's result be judged
                self._outbox.append(DeviceFree(uuid=uuid, free=free, used_bytes=used, at_ns=now))
                self._over.append(uuid)

    def _complete(self, uuid: str) -> None:
        if uuid in self._unwritten:
            self._unwritten[uuid].append(self._read(uuid))
        self._write()

    def _memory_used(self, uuid: str) -> int | None:
        try:
            return self._nvml.memory_used(uuid)
        except NvmlError:
            return None

    def _receive(self) -> bool:
        """Note the AwaitFree requests that have arrived. Return False once the orchestrator has closed the socket."""
        while True:
            try:
                data = self._channel.recv(MAX_MESSAGE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except ConnectionError:
                return False
            if not data:
                return False
            request = _AWAIT_FREE.decode(data)
            until_ns = time.monotonic_ns() + int(request.timeout_s * 1e9)
            self._waiting[request.uuid] = _Waiting(request, until_ns)

    def _send_answers(self) -> None:
        while self._outbox and self._send(self._outbox[0]):
            self._outbox.popleft()

    def _send(self, message: FromSampler) -> bool:
        try:
            self._channel.send(codec.encode(message), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True  # nobody listens any more; the next receive ends the loop
        return True

    def _pause_ms(self) -> float:
        until_tick = max(0.0, (self._next_ns - time.monotonic_ns()) / 1e6)
        return min(until_tick, _FREE_POLL_MS) if self._waiting or self._outbox else until_tick

    def _opened(self, paths: dict[str, str]) -> dict[str, SampleFile]:
        files: dict[str, SampleFile] = {}
        boot_id = host.boot_id()
        for uuid, path in paths.items():
            with self._complaining(f"samples of {uuid}"):
                files[uuid] = SampleFile(Path(path), boot_id)
        return files

    def _write(self) -> None:
        for uuid, samples in self._unwritten.items():
            self._unwritten[uuid] = []
            file = self._files.get(uuid)
            if file is not None and samples:
                with self._complaining(f"samples of {uuid}"):
                    file.append(samples)

    @contextlib.contextmanager
    def _complaining(self, what: str) -> Iterator[None]:
        """Catch an OSError of the `with` body, and report the first one for each `what` to the orchestrator.

        what: name of what the body writes, such as "samples of <uuid>".
        """
        try:
            yield
        except OSError as error:
            if what not in self._complained:
                self._complained.add(what)
                self._outbox.append(Unavailable(reason=f"{what} cannot be written: {error}"))


def main() -> int:
    """Run the telemetry process and return its exit code, always 0. Descriptor 3 is its socket to the orchestrator."""
    with socket.socket(fileno=CONTROL_FD) as channel:
        data = channel.recv(MAX_MESSAGE_BYTES)
        if not data:
            return 0
        task = codec.decode(data, Task)
        _end_on_sigterm(channel)
        root = str(Path(__file__).resolve().parents[3])
        if root != task.root:
            _refuse(channel, f"the sampler was imported from {root}, the orchestrator from {task.root}")
            return 0
        try:
            with Nvml() as nvml:
                Sampler(nvml, channel, task).run()
        except NvmlError as error:
            _refuse(channel, str(error))
    return 0


def _refuse(channel: socket.socket, reason: str) -> None:
    channel.send(codec.encode(Unavailable(reason=reason)))


def _end_on_sigterm(channel: socket.socket) -> None:
    """Treat SIGTERM like a closed socket: it wakes the poll, and unwritten samples are written."""

    def close(_number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):  # closed already: it is ending
            channel.shutdown(socket.SHUT_RD)

    signal.signal(signal.SIGTERM, close)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


if __name__ == "__main__":
    sys.exit(main())
