"""Lines for logs and for terminals that cannot be redrawn."""

import time
from collections.abc import Callable

from orchestrator.engine.display_events import CellEnded, Notice, Snapshot
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.snapshot_rate import Pace
from orchestrator.terminal.wording import clean, duration, event_lines, is_loud, launch_words, progress_line


class Plain:
    """Prints events, and every half minute the progress, with the time since the start. now: monotonic seconds."""

    def __init__(
        self, outlet: Outlet, *, quiet: bool, verbose: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._outlet = outlet
        self._quiet = quiet
        self._verbose = verbose
        self._now = now
        self._began = now()
        self._pace = Pace(now)

    def show(self, snapshot: Snapshot) -> None:
        """Print the progress, at most every half minute."""
        if self._quiet:
            return
        if self._verbose:
            for line in self._pace.entered(snapshot):
                words = launch_words(line.cell or "", line.batch_size, line.attempt, verbose=True)
                self._print(f"{clean(line.label)}  {words}: {line.phase}")
        if self._pace.due():
            self._print(progress_line(snapshot))

    def tell(self, event: CellEnded | Notice) -> None:
        """Print the event."""
        if is_loud(event) or not self._quiet:
            for line in event_lines(event, verbose=self._verbose):
                self._print(line)

    def close(self) -> None:
        """Send what the reader did not take yet."""
        self._outlet.close()

    def _print(self, text: str) -> None:
        self._outlet.write(f"[{duration(self._now() - self._began)}] {text}\n")
        self._outlet.flush()
