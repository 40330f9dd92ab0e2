"""The live view, redrawn at most once a second: rich costs 3 % of a core at 4 Hz and 0.9 % at 1 Hz."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from orchestrator.engine.display_events import CellEnded, Notice, Snapshot
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.wording import device_line, event_lines, is_loud, total_line

if TYPE_CHECKING:
    from typing import TextIO

REFRESH_EVERY_S: Final = 1.0


class LiveDisplay:
    """Redraws the state of the run in place. quiet: show only the line of the whole run, failures and warnings.

    verbose: show the evidence of failures. now: returns monotonic seconds.
    """

    def __init__(
        self, outlet: Outlet, *, quiet: bool, verbose: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._outlet = outlet
        self._quiet = quiet
        self._verbose = verbose
        self._now = now
        self._drawn_at = now() - REFRESH_EVERY_S
        self._ascii_only = not outlet.encoding.lower().startswith("utf")
        self._console = Console(
            file=cast("TextIO", outlet), force_terminal=True, legacy_windows=False, markup=False, highlight=False
        )
        self._live: Live | None = None
        self._fit()

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot, or skip it if the last one is less than a second old or the terminal is behind or gone."""
        if self._now() - self._drawn_at < REFRESH_EVERY_S or self._outlet.gone or self._outlet.congested:
            return
        self._drawn_at = self._now()
        self._fit()
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        self._live.update(self._frame(snapshot), refresh=True)

    def tell(self, event: CellEnded | Notice) -> None:
        """Print the event above the live lines. If quiet, print only warnings, errors and failed launches.

        A launch that was stopped is not a failed one.
        """
        if self._outlet.gone or (self._quiet and not is_loud(event)):
            return
        style = ("yellow" if isinstance(event, Notice) else "red") if is_loud(event) else ""
        for line in event_lines(event, verbose=self._verbose):
            self._console.print(Text(line, style=style))

    def close(self) -> None:
        """Remove the live lines, restore the cursor and close the outlet. Unread output is dropped after a second."""
        if self._live is not None:
            self._live.stop()
        self._outlet.close()

    def _frame(self, snapshot: Snapshot) -> Group:
        width = self._console.width
        devices = () if self._quiet else snapshot.devices
        lines = [device_line(line, width, ascii_only=self._ascii_only) for line in devices]
        total = total_line(snapshot, width, ascii_only=self._ascii_only)
        texts = [Text(line, no_wrap=True, overflow="crop") for line in lines]
        return Group(*texts, Text(total, style="bold", no_wrap=True, overflow="crop"))

    def _fit(self) -> None:
        """Adapt to the terminal's size, minus one column: some terminals wrap when the last column is written."""
        size = self._outlet.size
        self._console.size = (max(size.columns - 1, 20), size.lines)
