"""Counters of the transfers and barriers that each process of a launch has begun, in one file for each launch.

The file has an entry for each process and outlives them. If a launch hangs or fails, the orchestrator reads it
(engine/launches/gang.py) to find the process that began the fewest: the others wait for that one.
"""

import mmap
from pathlib import Path

from protocol.messages import STEP, Gang


class StepCounter:
    """Counter of one process: the entry of its rank in the file `gang.steps`. number: transfers and barriers begun."""

    def __init__(self, gang: Gang) -> None:
        self.number = 0
        self._place = STEP.size * gang.rank
        with Path(gang.steps).open("r+b") as file:
            self._steps = mmap.mmap(file.fileno(), 0)

    def begin(self) -> int:
        """Count a transfer or barrier that starts now. Returns its number, from 1."""
        self.number += 1
        STEP.pack_into(self._steps, self._place, self.number)
        return self.number
