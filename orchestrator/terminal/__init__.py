"""Display a run for a person, or for a program that reads logs.

    a terminal                  live.py         one line a device, redrawn once a second; -q: one line in all
    a pipe, a file, TERM=dumb   plain.py        a line for each event, a progress line every half minute
    --log-format json           structured.py   one JSON object a line

All write through outlet.py, which never waits for a reader: a terminal must not block a run.
"""

import os
from typing import Final, TextIO

from orchestrator.engine.display_events import CellEnded, Display, Notice, Snapshot
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.plain import Plain

SILENT: Final = 2
"""If --quiet is given this often, the display shows nothing."""


def make(*, quiet: int, verbose: bool, log_format: str, stream: TextIO) -> Display:
    """Make the display for `stream`. quiet: number of -q (0: all events, 1: failures and warnings, 2 or more: nothing).

    verbose: show phases and evidence of failures. log_format: "json" for JSON, any other word for the live view on a
    terminal and plain lines elsewhere.
    """
    if quiet >= SILENT:
        return Silent()
    outlet = Outlet(stream)
    if log_format == "json":
        from orchestrator.terminal.structured import Structured

        return Structured(outlet, quiet=bool(quiet), verbose=verbose)
    if outlet.is_terminal and os.environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}:
        from orchestrator.terminal.live import LiveDisplay

        return LiveDisplay(outlet, quiet=bool(quiet), verbose=verbose)
    return Plain(outlet, quiet=bool(quiet), verbose=verbose)


class Silent:
    """Display that shows nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Show nothing."""

    def tell(self, event: CellEnded | Notice) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""
