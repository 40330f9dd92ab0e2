"""Zygote: the process that imports torch and the plan's models once, and forks a worker for each launch.

Nothing else in this project forks without exec. The zygote is single-threaded, never touches CUDA and makes no tensor.
It never imports user code.

    orchestrator ── Prepare ──▶ zygote          imports, gc.freeze
                 ◀── Ready ────
                 ── Fork(spec) ▶ zygote ── fork ──▶ middle ── fork ──▶ worker → adopt.become → session.run
                 ◀── Forked ───         ◀── pid ── exits
"""

import os
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Final, NoReturn

from protocol import codec
from protocol.messages import Fork, Forked, ForkFailed, LaunchSpec, Prepare, Ready, ToZygote
from worker import adopt, preload, session

CONTROL_FD: Final = 3  # socket to the orchestrator

_TO_ZYGOTE: Final = codec.Decoder[ToZygote](ToZygote)
_MAX_REQUEST_BYTES: Final = 256 * 1024
_PID: Final = struct.Struct("<i")


def main() -> NoReturn:
    """Answer the orchestrator's Prepare, then each Fork by forking a worker, until it closes the socket. Then exit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    control = socket.socket(fileno=CONTROL_FD)
    prepare = _receive(control)
    if not isinstance(prepare, Prepare):
        os._exit(0)
    adopt.be_called("gpubench-zygote")
    adopt.check_rooms(prepare.root)
    control.send(codec.encode(_prepare(prepare.preload)))
    while isinstance(request := _receive(control), Fork):
        answer = _fork(request.spec, control)
        control.send(codec.encode(answer))
    os._exit(0)


def _prepare(named: tuple[str, ...]) -> Ready:
    begin = time.monotonic_ns()
    failed = preload.import_all(named)
    adopt.settle()
    import_ms = (time.monotonic_ns() - begin) / 1e6
    threads = len(list(Path("/proc/self/task").iterdir()))
    return Ready(pid=os.getpid(), import_ms=import_ms, threads=threads, failed=failed)


def _receive(control: socket.socket) -> ToZygote | None:
    data = control.recv(_MAX_REQUEST_BYTES)
    return _TO_ZYGOTE.decode(data) if data else None


def _fork(spec: LaunchSpec, control: socket.socket) -> Forked | ForkFailed:
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    try:
        middle = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return ForkFailed(token=spec.token, message=f"fork: {error.strerror}")
    if middle == 0:
        _leave_worker_behind(spec, control, reader, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read(_PID.size)
    os.waitpid(middle, 0)
    if len(answer) < _PID.size:
        return ForkFailed(token=spec.token, message="the intermediate process died before it could fork")
    return Forked(token=spec.token, pid=_PID.unpack(answer)[0])


def _leave_worker_behind(spec: LaunchSpec, control: socket.socket, reader: int, writer: int) -> NoReturn:
    """Fork the worker from the middle process, write its PID to the pipe `writer` (nothing if that fails), and exit.

    The worker closes both ends of the pipe, and `control`, the zygote's socket to the orchestrator.
    """
    middle = os.getpid()
    try:
        worker = os.fork()
        if worker == 0:
            os.close(reader)
            os.close(writer)
            control.close()
            session.run(spec, adopt.become(spec, born_of=middle))
        os.write(writer, _PID.pack(worker))
    except BaseException:  # noqa: BLE001 - this process must not continue as a second zygote
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
