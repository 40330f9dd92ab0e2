"""Mismatches (wrong outputs) of one launch. All are counted; the first are kept in memory and at once on the disk.

wrong ──▶ seen: on the disk ──▶ read again, made again, computed anew ──▶ examined: on the disk
                                └ on a faulty GPU, this may end the process
"""

import time

from protocol.verification import KEPT_MISMATCHES, Mismatch, Seen
from worker.stage import Stage


class Kept:
    """List of the first KEPT_MISMATCHES mismatches of one launch. count: number of all mismatches."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._kept: list[Mismatch] = []
        self.count = 0

    def seen(self, what: str, iteration: int, *, sender: str | None = None, of_all: bool = False) -> int | None:
        """Count a mismatch, and store it also on disk before its examination.

        Returns its index, for `examined`. None if the list is full, so that the mismatch is only counted. what: name of
        the failed check. iteration: index of the iteration in its phase, from 0. sender: UUID of the device that sent a
        copy. of_all: the output is a sum of devices.
        """
        self.count += 1
        at = len(self._kept)
        if at >= KEPT_MISMATCHES:
            return None
        mismatch = Mismatch(
            what=what,
            at_ns=time.monotonic_ns(),
            iteration=iteration,
            elements=0,
            bits=0,
            first=(),
            same_when_read_again=True,
            repeated=0,
            wrong_again=0,
            sender=sender,
            of_all=of_all,
        )
        self._kept.append(mismatch)
        self._stage.keep(Seen(at=at, mismatch=mismatch))
        return at

    def examined(self, at: int, mismatch: Mismatch) -> None:
        """Replace the mismatch at index `at` by the examined one, also on disk."""
        self._kept[at] = mismatch
        self._stage.keep(Seen(at=at, mismatch=mismatch))

    def __getitem__(self, at: int) -> Mismatch:
        return self._kept[at]

    @property
    def all(self) -> tuple[Mismatch, ...]:
        """The kept mismatches, in order."""
        return tuple(self._kept)
