"""What a process of a gang has begun together with the others: a number that outlives it, for the orchestrator."""

import mmap
from pathlib import Path

from protocol.messages import STEP, Gang


class Counted:
    """Counts in the file of steps, which stays as it was when this process dies. number: how many so far."""

    def __init__(self, gang: Gang) -> None:
        self.number = 0
        self._place = STEP.size * gang.rank
        with Path(gang.steps).open("r+b") as file:
            self._steps = mmap.mmap(file.fileno(), 0)

    def begin(self) -> int:
        """One more, before it is done: who does not come can then be told from who waits."""
        self.number += 1
        STEP.pack_into(self._steps, self._place, self.number)
        return self.number
