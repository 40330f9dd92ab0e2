"""The socket that workers connect to: ROUTER on ipc://, in a private folder.

    <XDG_RUNTIME_DIR or temporary folder>/gpubench-<uid>/<run>-<pid>/   0700
        lock      held during the run; a folder whose lock is free was left by a killed run and is removed
        link      the socket
        meeting…  where the processes of a launch on several devices find each other

A worker is addressed by the secret token of its launch, so no other process can take its place.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import zmq

from orchestrator.errors import UserError
from orchestrator.system import temporary
from protocol import codec
from protocol.cell import slug
from protocol.errors import ProtocolError
from protocol.messages import FromWorker, Outcome, ToWorker

_MAX_SOCKET_PATH: Final = 107
_NAME_LENGTH: Final = 24
_SEND_TIMEOUT_MS: Final = 1_000
_REMEDY: Final = (
    "Free space, or set XDG_RUNTIME_DIR to a folder of yours that can be written and whose path is below 60 characters."
)
_FROM_WORKER: Final = codec.Decoder[FromWorker](FromWorker)


class Link:
    """The orchestrator's end of the socket. Raises UserError when no private folder can be made."""

    def __init__(self, name: str) -> None:
        self.folder = socket_folder(name)
        try:
            with _sweeping(self.folder.parent):
                self.folder.mkdir(mode=0o700)
                self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # a disk that is full has room for no folder
            raise UserError(f"{self.folder}: sockets cannot be made there: {error.strerror}. {_REMEDY}") from error
        self.endpoint = f"ipc://{self.folder / 'link'}"
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDTIMEO, _SEND_TIMEOUT_MS)
        self.socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_MESSAGE_BYTES)
        previous = os.umask(0o077)
        try:
            self.socket.bind(self.endpoint)
        finally:
            os.umask(previous)

    def receive(self) -> FromWorker | ProtocolError | None:
        """Return a message, a ProtocolError, or None without one. The caller checks that it knows the token."""
        try:
            frames = self.socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        try:
            if len(frames) != 2:
                raise ProtocolError(f"{len(frames)} frames instead of 2")
            message = _FROM_WORKER.decode(frames[1])
            if frames[0] != message.token.encode():
                raise ProtocolError(f"a message of launch {message.launch} came from another worker")
            if isinstance(message, Outcome) and message.result is not None and message.result.flaw is not None:
                raise ProtocolError(f"the result of launch {message.launch} is no measurement: {message.result.flaw}")
        except ProtocolError as error:
            return error
        return message

    def send(self, token: str, message: ToWorker) -> bool:
        """Send to the worker with a token. Returns False when it is not, or no longer, connected."""
        try:
            self.socket.send_multipart([token.encode(), codec.encode(message)])
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def close(self) -> None:
        """Unbind, and remove the folder."""
        self.socket.close()
        self._context.term()
        shutil.rmtree(self.folder)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def socket_folder(name: str) -> Path:
    """The folder of the link of this process's run `name`. Raises UserError as Link does."""
    return _base() / f"{slug(name)[:_NAME_LENGTH]}-{os.getpid()}"


def _base() -> Path:
    """The private folder of this user, made and checked: owned, a real folder, closed to others, short enough."""
    name = f"gpubench-{os.getuid()}"
    longest = f"/{'n' * _NAME_LENGTH}-4194304/link"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    for parent in (Path(runtime) if runtime else None, temporary.folder(), temporary.USUAL):
        if parent is None:
            continue
        base = parent / name
        if len(str(base)) + len(longest) > _MAX_SOCKET_PATH:
            continue
        try:
            base.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        found = base.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise UserError(
                f"{base} is not a private folder of yours, and sockets are to be made there. Remove it, or set "
                "XDG_RUNTIME_DIR to a folder that only you can enter."
            )
        if os.access(base, os.W_OK):  # else it was made before its disk became read-only
            return base
    raise UserError(f"no folder for sockets can be made. {_REMEDY}")


@contextmanager
def _sweeping(base: Path) -> Iterator[None]:
    """Remove folders of killed runs, and keep others from sweeping while the body makes a new one."""
    gate = os.open(base / ".gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for folder in base.iterdir():
            if folder.is_dir() and _abandoned(folder):
                shutil.rmtree(folder)
        yield
    finally:
        os.close(gate)


def _abandoned(folder: Path) -> bool:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
