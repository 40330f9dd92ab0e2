"""Fresh processes that share one import of torch, as those of a zygote do, for tests that cannot run in their own.

`python -m tests.worker.fresh SOCKET` imports what every launch needs, then forks a process for each connection:

    test ── length, source and environment as JSON, standard input ──▶ fork ── standard output, DONE ──▶ test
"""

import contextlib
import importlib
import json
import os
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from protocol import codec
from protocol.messages import Assign, Outcome
from tests.fakes.assignments import ONE_THREAD, ROOT

DONE = b"\0done"
LENGTH = struct.Struct("<I")
EVERY_CORE = "import os; os.sched_setaffinity(0, os.sched_getaffinity(os.getppid())); "


class Fresh:
    """A server of fresh processes. What a process prints on standard error is in that of this process."""

    def __init__(self, place: Path) -> None:
        self._place = str(place)

    def script(self, source: str, *, stdin: bytes = b"", **environment: str) -> str:
        return self._run(source, stdin, environment).decode()

    def launch(self, assign: Assign, environment: dict[str, str] | None = None, *, every_core: bool = False) -> Outcome:
        source = EVERY_CORE * every_core + "from tests.fakes import assignments; assignments.main()"
        return codec.decode(self._run(source, codec.encode(assign), environment or {}), Outcome)

    def launch_gang(self, assigns: Sequence[Assign]) -> list[Outcome]:
        if (place := assigns[0].gang) is not None:
            Path(place.steps).write_bytes(bytes(8 * len(assigns)))
        with ThreadPoolExecutor(len(assigns)) as pool:
            return list(pool.map(self.launch, assigns))

    def _run(self, source: str, stdin: bytes, environment: dict[str, str]) -> bytes:
        request = json.dumps([source, environment]).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(280)
            connection.connect(self._place)
            connection.sendall(LENGTH.pack(len(request)) + request + stdin)
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answer:
                printed = answer.read()
        assert printed.endswith(DONE), f"the process failed after {printed!r}"
        return printed.removesuffix(DONE)


@contextlib.contextmanager
def server() -> Iterator[Fresh]:
    """Serve until the context ends."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        place = Path(folder) / "socket"
        command = [sys.executable, "-m", "tests.worker.fresh", str(place)]
        with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield Fresh(place)
            process.terminate()


class _Handler(socketserver.BaseRequestHandler):
    """The forked process of one connection."""

    request: socket.socket

    def handle(self) -> None:
        """Run the script with the connection as standard input and output."""
        (length,) = LENGTH.unpack(self.request.recv(LENGTH.size, socket.MSG_WAITALL))
        source, environment = json.loads(self.request.recv(length, socket.MSG_WAITALL))
        os.environ.update(environment)
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})  # threads in a busy loop took ten times as long
        sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
        for descriptor in (0, 1):
            os.dup2(self.request.fileno(), descriptor)
        exec(compile(source, "<script>", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        self.request.sendall(DONE)


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 8


def main() -> None:
    """Import, then serve until this process is killed."""
    from worker import preload

    for module in preload.COMMON:
        importlib.import_module(module)
    with _Server(sys.argv[1], _Handler) as listening:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        listening.serve_forever()


if __name__ == "__main__":
    main()
