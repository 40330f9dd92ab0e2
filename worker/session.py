"""One launch (attempt to measure a cell) in its process: its messages, in order (protocol/messages.py).

to the orchestrator       from the orchestrator
Hello ──▶        ◀── Assign
PhaseEntered, Progress ──▶       the workload runs
Outcome ──▶      ◀── Ack         the result is on disk, and the process ends
"""

import contextlib
import faulthandler
import importlib
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import zmq

import protocol
from protocol import codec, toolchain
from protocol.errors import ProtocolError
from protocol.exit_codes import WorkerExit
from protocol.failure import Failure, Phase
from protocol.messages import (
    Ack,
    Assign,
    Dismiss,
    FromWorker,
    Hello,
    LaunchSpec,
    Outcome,
    PhaseEntered,
    Progress,
    ToWorker,
)
from protocol.paths import LaunchPaths
from protocol.result import Result
from protocol.verification import Seen
from worker import adopt, exception_categories, preload
from worker.errors import UnsupportedError
from worker.stage import Stage

_TO_WORKER: Final = codec.Decoder[ToWorker](ToWorker)
_ASSIGN_TIMEOUT_S: Final = 60.0
_SEND_TIMEOUT_MS: Final = 30_000
_DUMP_AHEAD_S: Final = 2.0
"""Seconds between the dump of all threads' stacks and the orchestrator's deadline."""


def run(spec: LaunchSpec, fault_log: int) -> NoReturn:
    """Run the launch `spec`, then exit with a WorkerExit. fault_log: descriptor of the file for stack dumps."""
    link = _Link(spec)
    link.send(
        Hello(
            launch=spec.launch,
            token=spec.token,
            version=protocol.VERSION,
            pid=os.getpid(),
            root=adopt.rooms_root(),
        )
    )
    assign = link.receive(_ASSIGN_TIMEOUT_S)
    if not isinstance(assign, Assign):
        _leave(WorkerExit.DISMISSED if isinstance(assign, Dismiss) else WorkerExit.NO_ASSIGNMENT)
    outcome = _work(spec, assign, link, fault_log)
    link.announce(Phase.FINISH)
    _arm(assign, Phase.FINISH, fault_log)
    link.send(outcome)
    answer = link.receive(assign.deadlines.finish)
    if isinstance(answer, Ack):
        _leave(WorkerExit.DONE)
    _leave(WorkerExit.DISMISSED if isinstance(answer, Dismiss) else WorkerExit.NO_ACKNOWLEDGEMENT)


def _work(spec: LaunchSpec, assign: Assign, link: "_Link", fault_log: int) -> Outcome:
    def announce(phase: Phase) -> None:
        link.announce(phase)
        _arm(assign, phase, fault_log)

    def progressed(phase: Phase, fraction: float) -> None:
        link.progress(phase, fraction)
        if assign.measurement.fixed(phase):
            _arm(assign, phase, fault_log)

    def keep(seen: Seen) -> None:
        _note(seen, paths)

    paths = LaunchPaths(Path(spec.folder))
    stage = Stage(announce, progressed, keep, spec.requested_ns, paths)
    try:
        stage.enter(Phase.IMPORT)
        if assign.cell.compiles and (lacking := toolchain.missing(assign.device.kind)):
            raise UnsupportedError(f"torch.compile cannot generate code for {assign.device.label}: {lacking}")
        with stage.timed("import"):
            workload = importlib.import_module(f"worker.workloads.{assign.cell.workload}")
            for module in preload.modules(assign.model.preload):
                importlib.import_module(module)
            adopt.settle()
        result: Result = workload.run(assign, stage, spec.isolation)
        outcome = Outcome(launch=spec.launch, token=spec.token, result=result)
        codec.encode(outcome)
    except BaseException as error:  # noqa: BLE001 - this is the boundary: the parent decides what it means
        with contextlib.suppress(OSError):  # a disk that is full must not hide the cause
            traceback.print_exception(error)
        failure = exception_categories.failure(error, stage.phase)
        _keep(failure, paths)
        return Outcome(launch=spec.launch, token=spec.token, failure=failure)
    return outcome


def _keep(failure: Failure, paths: LaunchPaths) -> None:
    try:  # in case the message is lost
        paths.unfinished_error.write_bytes(msgspec.json.format(msgspec.json.encode(failure), indent=2))
        paths.unfinished_error.rename(paths.error)
    except OSError as error:
        with contextlib.suppress(OSError):  # nor can stderr.log on a full disk: the message is still sent
            print(f"{paths.error} could not be written: {error}", file=sys.stderr)  # noqa: T201 - kept as evidence


def _note(seen: Seen, paths: LaunchPaths) -> None:
    """Append a mismatch to the launch's file `mismatches`, and sync it, because a faulty GPU may end this process."""
    with contextlib.suppress(OSError):
        is_new = not paths.mismatches.exists()
        with paths.mismatches.open("ab", buffering=0) as file:
            file.write(b"\n" + msgspec.json.encode(seen) + b"\n")
            os.fsync(file.fileno())
        if is_new:
            folder = os.open(paths.folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _arm(assign: Assign, phase: Phase, fault_log: int) -> None:
    """Schedule a dump of all threads' stacks shortly before the deadline of `phase`, even while the GIL is held.

    fault_log: descriptor of the file for the dump.
    """
    allowed = assign.deadlines.allowance(phase, assign.measurement)
    faulthandler.dump_traceback_later(max(allowed - _DUMP_AHEAD_S, allowed / 2), file=fault_log)


def _leave(status: WorkerExit) -> NoReturn:
    with contextlib.suppress(OSError):  # a disk that is full: the outcome is safe all the same
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # no interpreter shutdown: destructors can only do harm now


class _Link:
    def __init__(self, spec: LaunchSpec) -> None:
        self._spec = spec
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, spec.token.encode())
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDTIMEO, _SEND_TIMEOUT_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_MESSAGE_BYTES)
        self._socket.connect(spec.endpoint)

    def send(self, message: FromWorker) -> None:
        self._socket.send(codec.encode(message))

    def announce(self, phase: Phase) -> None:
        """Write the phase to a file, which remains if the process dies, then send it."""
        with contextlib.suppress(OSError):  # a disk that is full costs the file, not the launch
            LaunchPaths(Path(self._spec.folder)).phase.write_text(phase, encoding="ascii")
        self.send(
            PhaseEntered(launch=self._spec.launch, token=self._spec.token, phase=phase, at_ns=time.monotonic_ns())
        )

    def progress(self, phase: Phase, fraction: float) -> None:
        message = Progress(launch=self._spec.launch, token=self._spec.token, phase=phase, fraction=fraction)
        try:
            self._socket.send(codec.encode(message), zmq.NOBLOCK)
        except zmq.Again:  # a full queue drops progress
            return

    def receive(self, timeout_s: float) -> ToWorker | None:
        """Return the next message for this launch (others are dropped), or None after `timeout_s` seconds."""
        give_up = time.monotonic() + timeout_s
        while (left := give_up - time.monotonic()) > 0:
            if not self._socket.poll(int(left * 1000) + 1):
                return None
            try:
                message = _TO_WORKER.decode(self._socket.recv())
            except ProtocolError as error:
                print(f"dropped: {error}", file=sys.stderr)  # noqa: T201 - kept as evidence in the log
                continue
            if message.launch == self._spec.launch:
                return message
        return None
