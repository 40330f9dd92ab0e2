"""Barrier between the processes of a simulated cell (workloads/fault.py), without torch, NCCL or gloo.

rank 1, 2, … ── "here" ──▶ rank 0          rank 0 waits for all other ranks
rank 1, 2, … ◀── "go on" ── rank 0         a connection that ends is a CommunicationError
"""

import socket
import time

from protocol.messages import Gang
from worker.errors import CommunicationError
from worker.step_counter import StepCounter

_LOOK_S = 0.005


class Gathering:
    """Barrier between all processes of a launch, seen by one of them. Never times out.

    steps: counts the barriers that this process has begun. Its connection to the others counts as the first.
    """

    def __init__(self, gang: Gang, size: int) -> None:
        """Wait until this process is connected: rank 0 to all `size` - 1 others, each other process to rank 0.

        They meet at the Unix socket `gang.meeting`. Raises CommunicationError if a connection fails.
        """
        self.steps = StepCounter(gang)
        self.steps.begin()
        self._leads = gang.rank == 0
        try:
            self._others = _heard(gang.meeting, size - 1) if self._leads else [_reached(gang.meeting)]
        except OSError as error:
            raise CommunicationError(f"between {size} processes: {error}") from error

    def align(self) -> None:
        """Wait until all processes of the launch have called align. Raises CommunicationError if a connection fails."""
        number = self.steps.begin()
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
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(meeting)
        door.listen(others)
        return [door.accept()[0] for _ in range(others)]


def _reached(meeting: str) -> socket.socket:
    while True:
        other = socket.socket(socket.AF_UNIX)
        try:
            other.connect(meeting)
        except (FileNotFoundError, ConnectionRefusedError):  # the leader does not listen yet
            other.close()
            time.sleep(_LOOK_S)
        else:
            return other
