"""Current phase of a launch, and its ledger: milliseconds of building, of warm-up, and so on."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from protocol.failure import Phase
from protocol.paths import LaunchPaths
from protocol.result import Ledger
from protocol.verification import Seen


class Stage:
    """Reports phases and keeps the ledger (protocol.result.Ledger) of one launch. phase: the current one.

    announce: called with each new phase. progressed: called with a phase and its progress, 0 to 1. keep: stores a
    mismatch on disk. requested_ns: monotonic time of the request for the launch. paths: files of the launch.
    """

    def __init__(
        self,
        announce: Callable[[Phase], None],
        progressed: Callable[[Phase, float], None],
        keep: Callable[[Seen], None],
        requested_ns: int,
        paths: LaunchPaths,
    ) -> None:
        self._announce = announce
        self._progressed = progressed
        self.keep = keep
        self.paths = paths
        self.phase = Phase.START
        self._spent_ms = {"start": (time.monotonic_ns() - requested_ns) / 1e6}

    def enter(self, phase: Phase) -> None:
        """Start a phase, and announce it to the orchestrator."""
        self.phase = phase
        self._announce(phase)

    def progress(self, fraction: float) -> None:
        """Report the done part of the phase. Call it between timed blocks, never inside one.

        fraction: clipped to 0 to 1.
        """
        self._progressed(self.phase, min(max(fraction, 0.0), 1.0))

    @contextmanager
    def timed(self, entry: str) -> Iterator[None]:
        """Add the time of the `with` body to the ledger, even if it raises.

        entry: name of a field of Ledger, less its suffix "_ms", such as "build".
        """
        begin = time.monotonic_ns()
        try:
            yield
        finally:
            self._spent_ms[entry] = self._spent_ms.get(entry, 0.0) + (time.monotonic_ns() - begin) / 1e6

    def ledger(self) -> Ledger:
        """Return the milliseconds spent so far on each field of Ledger; 0 for fields that were not timed."""
        return Ledger(**{field: self._spent_ms.get(field[:-3], 0.0) for field in Ledger.__struct_fields__})
