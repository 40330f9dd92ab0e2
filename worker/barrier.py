"""The processes of a made-up cell on several devices: they wait for each other as those of gang.py do, without torch.

    rank 1, 2, … ── "here" ──▶ rank 0          once each of them is there
    rank 1, 2, … ◀── "go on" ── rank 0         a connection that ends is a CommunicationError

For fault.py alone, whose cells wait and compute nothing: a connection takes the place of NCCL and gloo.
"""

import socket
import time

from protocol.messages import Gang
from worker.errors import CommunicationError
from worker.step_counter import Counted

_LOOK_S = 0.005


class Gathering:
    """All processes of a launch, seen from one of them. As in gang.py, nothing here gives up by itself."""

    def __init__(self, gang: Gang, size: int) -> None:
        """Wait until all are connected. size: how many they are. Raises CommunicationError."""
        self.counted = Counted(gang)
        self.counted.begin()
        self._leads = gang.rank == 0
        try:
            self._others = _heard(gang.meeting, size - 1) if self._leads else [_reached(gang.meeting)]
        except OSError as error:
            raise CommunicationError(f"between {size} processes: {error}") from error

    def align(self) -> None:
        """Let nobody go on before all have come this far. Raises CommunicationError."""
        number = self.counted.begin()
        try:
            for other in self._others:
                self._hear(other) if self._leads else other.send(b"!")
            for other in self._others:
                other.send(b"!") if self._leads else self._hear(other)
        except OSError as error:
            raise CommunicationError(f"transfer {number}: {error}") from error

    @staticmethod
    def _hear(other: socket.socket) -> None:
        if not other.recv(1):
            raise ConnectionResetError("the connection was closed by the other process")


def _heard(meeting: str, others: int) -> list[socket.socket]:
    """Connections from that many others."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(meeting)
        door.listen(others)
        return [door.accept()[0] for _ in range(others)]


def _reached(meeting: str) -> socket.socket:
    """A connection to the one that leads, which may be born later."""
    while True:
        other = socket.socket(socket.AF_UNIX)
        try:
            other.connect(meeting)
        except (FileNotFoundError, ConnectionRefusedError):
            other.close()
            time.sleep(_LOOK_S)
        else:
            return other
