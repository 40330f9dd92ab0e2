"""The socket that workers connect to: ROUTER on ipc://, in a private folder.

    <XDG_RUNTIME_DIR or temporary folder>/gpubench-<uid>/<run>-<pid>/   0700
        lock      held during the run; a folder whose lock is free was left by a killed run and is removed
        link      the socket
        meeting…  where the processes of a launch on several devices find each other

Cleaners of temporary files, and the end of a login session, delete sockets: `restore` makes them again. A worker is
addressed by its secret token, so no other process can take its place.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import zmq

from orchestrator.errors import UserError
from orchestrator.system import plain_text, temporary
from protocol import codec
from protocol.cell import slug
from protocol.errors import ProtocolError
from protocol.messages import FromWorker, Outcome, ToWorker

_MAX_SOCKET_PATH: Final = 107
_NAME_LENGTH: Final = 24
_SEND_TIMEOUT_MS: Final = 1_000
_REMEDY: Final = "Free space, or set XDG_RUNTIME_DIR to a writable folder of yours with a path below 60 characters."
_FROM_WORKER: Final = codec.Decoder[FromWorker](FromWorker)


class LinkError(Exception):
    """The socket is gone and cannot be made again, so no worker can start any more."""


class Link:
    """The orchestrator's end of the socket. name: of the run. Raises UserError if folder or socket cannot be made.

    folder: private folder of the socket. endpoint: ZeroMQ address for workers. `restore` may change both.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.folder = socket_folder(name)
        self._lock = -1
        self._files: tuple[_File | None, ...] = ()
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDTIMEO, _SEND_TIMEOUT_MS)
        self.socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_MESSAGE_BYTES)
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def restore(self) -> str:
        """Make a new socket if its file, lock or folder was deleted. Return a sentence on that, or "".

        Raises LinkError if that fails.
        """
        if self._files == self._found():
            return ""
        gone, what = (self.folder / "link", "socket") if self.folder.is_dir() else (self.folder, "folder of the socket")
        problem = f"{gone}, the {what} of the workers, was deleted (by a cleaner of temporary files?)"
        try:
            self._make()
        except UserError as error:
            raise LinkError(f"{problem} and cannot be created again: {error}") from error
        return f"{problem}. It was created again{'' if gone.exists() else f', in {self.folder}'}."

    def _make(self) -> None:
        """Make folder, lock and socket. The socket is renamed once it is bound, so that zmq never deletes it."""
        self.folder = socket_folder(self._name)
        try:
            with _sweeping(self.folder.parent):
                self.folder.mkdir(mode=0o700, exist_ok=True)
                self._unlock()
                self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.endpoint = f"ipc://{self.folder / 'link'}"
            previous = os.umask(0o077)
            try:
                self.socket.bind(f"ipc://{self.folder / 'new'}")
            finally:
                os.umask(previous)
            (self.folder / "new").rename(self.folder / "link")
        except (OSError, zmq.ZMQError) as error:  # for example, the disk is full
            raise UserError(f"{self.folder}: sockets cannot be created there: {error.strerror}. {_REMEDY}") from error
        self._files = self._found()

    def _found(self) -> tuple["_File | None", ...]:
        return tuple(_file(self.folder / name) for name in ("lock", "link"))

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def receive(self) -> FromWorker | ProtocolError | None:
        """Return the next message of a worker without waiting; None if there is none.

        An invalid message is returned, not raised, as a ProtocolError. The token in a valid one is that of its sender.
        The caller checks whether the token belongs to a launch.
        """
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
            if isinstance(message, Outcome) and message.result is not None and (flaw := message.result.flaw):
                raise ProtocolError(f"the result of launch {message.launch} is no measurement: {flaw}")
        except ProtocolError as error:
            return error
        return message

    def send(self, token: str, message: ToWorker) -> bool:
        """Send a message to the worker with this token. Return False if it is not connected or does not read."""
        try:
            self.socket.send_multipart([token.encode(), codec.encode(message)])
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def close(self) -> None:
        """Close the socket, and remove its folder as far as possible."""
        self.socket.close()
        self._context.term()
        shutil.rmtree(self.folder, ignore_errors=True)  # the next run removes leftovers
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_File = tuple[int, int]
"""Identity of a file: (device number, inode)."""


def _file(path: Path) -> _File | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def socket_folder(name: str) -> Path:
    """Return the path of the folder for this process's socket. Makes the parent of this folder, not the folder.

    name: of the run. Raises UserError if no private parent folder can be made.
    """
    return _base() / f"{slug(name)[:_NAME_LENGTH]}-{os.getpid()}"


def _base() -> Path:
    name = f"gpubench-{os.getuid()}"
    longest = f"/{'n' * _NAME_LENGTH}-4194304/link"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    for parent in (Path(runtime) if runtime else None, temporary.folder(), temporary.USUAL):
        if parent is None:
            continue
        base = parent / name
        if len(os.fsencode(base)) + len(longest) > _MAX_SOCKET_PATH or not plain_text.is_text(base):
            continue
        try:
            base.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        status = base.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise UserError(
                f"{base} must be a private folder of yours, because it holds sockets. Remove it, or set "
                "XDG_RUNTIME_DIR to a folder that only you can enter."
            )
        if os.access(base, os.W_OK):  # else it was made before its disk became read-only
            return base
    raise UserError(f"no folder for sockets can be created. {_REMEDY}")


@contextmanager
def _sweeping(base: Path) -> Iterator[None]:
    """Remove the folders of killed runs in `base`, then run the body of `with`, both under a lock for this user.

    base: parent of the socket folders. In the body, the caller makes its folder: no other process can remove it
    meanwhile.
    """
    gate = os.open(base / ".gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for folder in base.iterdir():
            with suppress(FileNotFoundError):  # its own run is removing it
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
