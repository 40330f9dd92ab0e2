"""Base of plain and JSON logs: every event, progress every half minute, and with -v phases (such as warm-up)."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.terminal.outlet import Outlet
from protocol.failure import Phase

PROGRESS_EVERY_S: Final = 30.0


class LogDisplay(ABC):
    """Writes log lines of a run. quiet: only failures and warnings (in JSON also run_ended).

    verbose: phases too, and the evidence of failures. now: returns monotonic seconds.
    """

    def __init__(
        self, outlet: Outlet, *, quiet: bool, verbose: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._outlet = outlet
        self._quiet = quiet
        self._verbose = verbose
        self._now = now
        self._began = self._shown_at = now()
        self._phases: dict[str, tuple[str | None, Phase | None]] = {}

    @abstractmethod
    def tell(self, event: CellEnded | Notice) -> None:
        """Write the event, unless quiet hides it."""

    @abstractmethod
    def _write_phase(self, line: DeviceLine) -> None:
        """Write the phase (such as warm-up) that a device has entered."""

    @abstractmethod
    def _write_progress(self, snapshot: Snapshot) -> None:
        """Write the progress of the run."""

    def show(self, snapshot: Snapshot) -> None:
        """Write the progress if the last one is half a minute old, and if verbose each new phase; nothing if quiet.

        A phase that begins and ends between two snapshots is not written.
        """
        if self._quiet:
            return
        if self._verbose:
            before = self._phases
            self._phases = {line.uuid: (line.cell, line.phase) for line in snapshot.devices}
            for line in snapshot.devices:
                if line.phase is not None and before.get(line.uuid) != self._phases[line.uuid]:
                    self._write_phase(line)
        if self._now() - self._shown_at >= PROGRESS_EVERY_S:
            self._shown_at = self._now()
            self._write_progress(snapshot)

    def close(self) -> None:
        """Write the queued text, waiting at most a second for its reader, and close the outlet."""
        self._outlet.close()
