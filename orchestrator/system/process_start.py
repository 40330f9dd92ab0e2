"""Start processes as children of the orchestrator, even those that a zygote (process that forks workers) forks."""

import contextlib
import ctypes
import os
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from orchestrator.errors import ConfigError
from orchestrator.system.process_end import Exit, reap, signal_quietly
from protocol import codec
from protocol.messages import Fork, FromZygote, LaunchSpec, Prepare

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
"""The C library, loaded early: in a forked process the loader's lock may be held by a thread that is gone."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_CONTROL_FD: Final = 3
_APPENDED: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_MAX_ANSWER_BYTES: Final = 256 * 1024
_FROM_ZYGOTE: Final = codec.Decoder[FromZygote](FromZygote)

ONE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # pyarrow, which transformers imports where it is installed, otherwise starts a thread of its allocator (seen).
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Environment variables that keep libraries from starting threads: the zygote must be single-threaded to fork."""
_COMPILED: Final = "TORCHINDUCTOR_CACHE_DIR"


def rooms_root() -> Path:
    """Return the folder that holds the packages protocol, worker and orchestrator of this process."""
    return Path(__file__).resolve().parents[2]


def become_subreaper() -> None:
    """Let this process adopt its descendants when their parents end. Raises OSError if the kernel refuses."""
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def die_with(parent: int) -> None:
    """Let the kernel kill this process when `parent` dies, also after an exec. Exit at once if `parent` is dead."""
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os._exit(1)


def check_rooms() -> None:
    """Check that child processes import the same packages protocol, worker and orchestrator as this process.

    Raises ConfigError if a package of one of these names in another folder would be imported instead.
    """
    search = [str(rooms_root()), *sys.path[1:]] if _in_checkout() else sys.path[1:]
    for room in ("protocol", "worker", "orchestrator"):
        spec = PathFinder.find_spec(room, search)
        root = None if spec is None or spec.origin is None else Path(spec.origin).resolve().parents[1]
        if root != rooms_root():
            raise ConfigError(
                f"the package '{room}' of {root} would be used instead of the one in {rooms_root()}. Take it off "
                "PYTHONPATH, or rename it."
            )


def _in_checkout() -> bool:
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    return str(rooms_root()) not in installed


def child_environment(extra: dict[str, str]) -> dict[str, str]:
    """Return our environment plus `extra`, for a child started with `python -P`, so that it can import our packages."""
    environment = {**os.environ, **extra}
    if _in_checkout():  # an installed root in PYTHONPATH would put site-packages before the standard library
        paths = [str(rooms_root()), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def environment_of_workers(cache: Path, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables to add to our environment for processes that import torch.

    ONE_THREAD, which keeps libraries from starting threads, is always included and overrides the user's values.
    defaults: further variables, included if the user has not set them. cache: folder of the weights.
    TORCHINDUCTOR_CACHE_DIR is a folder in it, and omitted if the user has set it or if `cache` is not writable.
    """
    unset = {name: value for name, value in (defaults or {}).items() if name not in os.environ}
    standing = next(place for place in (cache, *cache.parents) if os.access(place, os.F_OK))
    if _COMPILED in os.environ:
        return ONE_THREAD | unset
    try:
        with tempfile.TemporaryFile(dir=standing):
            pass
    except OSError:
        return ONE_THREAD | unset
    return ONE_THREAD | unset | {_COMPILED: str(cache / "inductor")}


def start_module(module: str, *, log: Path, environment: dict[str, str], control: socket.socket) -> int:
    """Start `python -P -m module`, which the kernel kills when our main thread ends. Return its PID.

    log: file to which its output is appended. environment: variables added to ours. control: socket that it gets as
    descriptor 3. Raises OSError if the process cannot be started or `log` not opened.
    """
    with _opened(os.devnull, os.O_RDONLY) as null, _opened(log, _APPENDED) as output:
        return _start(module, environment, stdin=null, output=output, control=control.fileno())


def start_launch(spec: LaunchSpec, environment: dict[str, str], python: str = "") -> int:
    """Start a new interpreter for one measurement, which reads `spec` from standard input. Return the PID.

    environment: variables added to ours. python: path of an interpreter with its own libraries, "" for ours. For such
    an interpreter, PYTHONPATH in `environment` must be the folder made by `rooms_alone`.
    """
    reader, writer = os.pipe()
    try:
        os.write(writer, codec.encode(spec))  # a pipe holds 64 KiB; a spec is below 4
        os.close(writer)
        with _opened(Path(spec.folder) / "stderr.log", _APPENDED) as output:
            return _start("worker.launch", environment, stdin=reader, output=output, python=python)
    finally:
        os.close(reader)


def start_answering(module: str, *, environment: dict[str, str]) -> tuple[int, int]:
    """Start `python -P -m module`. Return its PID, and the read end of a pipe of its stdout and stderr.

    The caller must close the pipe and reap the process. environment: variables added to ours.
    """
    reader, writer = os.pipe()
    try:
        with _opened(os.devnull, os.O_RDONLY) as null:
            return _start(module, environment, stdin=null, output=writer), reader
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)


@contextlib.contextmanager
def _opened(path: str | Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def rooms_alone(folder: Path) -> Path:
    """Make the folder "rooms" in `folder`, with links to our packages protocol and worker only. Return its path.

    With it as PYTHONPATH, an interpreter imports these two, and its own libraries. Raises OSError on failure.
    """
    place = folder / "rooms"
    place.mkdir(exist_ok=True)
    for room in ("protocol", "worker"):
        with contextlib.suppress(FileExistsError):
            (place / room).symlink_to(rooms_root() / room)
    return place


def _start(
    module: str,
    environment: dict[str, str],
    *,
    stdin: int,
    output: int,
    control: int | None = None,
    python: str = "",
) -> int:
    """Start `python -P -m module`, which the kernel kills when our main thread ends. Return its PID.

    environment: variables added to ours. stdin: descriptor. output: descriptor for stdout and stderr. control: becomes
    descriptor 3. python: interpreter, "" for ours. Raises OSError if the process cannot be started.
    """
    parent = os.getpid()

    def prepare() -> None:
        die_with(parent)
        if control is not None:
            os.dup2(control, _CONTROL_FD)
            os.set_inheritable(_CONTROL_FD, True)  # also if it already had that number

    try:
        process = subprocess.Popen(
            [python or sys.executable, "-P", "-m", module],
            stdin=stdin,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment} if python else child_environment(environment),
            start_new_session=True,
            close_fds=False,
            preexec_fn=prepare,  # noqa: PLW1509 - system calls alone, and posix_spawn cannot ask for the parent's death
        )
    except subprocess.SubprocessError as error:  # `prepare` failed; subprocess hides the reason
        raise OSError(f"{module} could not be made ready to start: {error}") from error
    process.returncode = 0  # the caller reaps it, subprocess must not
    return process.pid


class Zygote:
    """Our end of the connection to a zygote (process that forks workers): requests forks and receives the answers."""

    def __init__(self, preload: tuple[str, ...], log: Path, environment: dict[str, str]) -> None:
        """Start a zygote without waiting for it. It imports the modules `preload`, then answers Ready.

        log: file to which its output is appended. environment: variables added to ours. Raises OSError if the process
        cannot be started. An import that fails is no error: Ready reports it.
        """
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self.pid = start_module("worker.zygote", log=log, environment=environment, control=theirs)
            except OSError:
                self._control.close()
                raise
        self._control.setblocking(False)
        with contextlib.suppress(ConnectionError):  # receive sees its death
            self._send(Prepare(preload=preload, root=str(rooms_root())))

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is an answer or the zygote is gone."""
        return self._control.fileno()

    def fork(self, spec: LaunchSpec) -> None:
        """Request a fork for a measurement. Raises OSError if the socket is full. `receive` reports a dead zygote."""
        with contextlib.suppress(ConnectionError):  # receive sees its death
            self._send(Fork(spec=spec))

    def receive(self) -> FromZygote | None:
        """Return the next answer, without waiting; None if there is none yet. Raises EOFError if the zygote is gone."""
        try:
            data = self._control.recv(_MAX_ANSWER_BYTES)
        except BlockingIOError:
            return None
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        return _FROM_ZYGOTE.decode(data)

    def close(self) -> Exit | None:
        """Close the socket, kill the zygote, wait for its end and return how it ended; None if it was reaped before."""
        self._control.close()
        signal_quietly(self.pid, signal.SIGKILL)
        return reap(self.pid)

    def _send(self, message: Prepare | Fork) -> None:
        self._control.send(codec.encode(message))
