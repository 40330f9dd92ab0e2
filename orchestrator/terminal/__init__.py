"""Display a run for a person, or for a program that reads logs.

    a terminal                  live.py         one line a device, redrawn once a second; events above it
    a pipe, a file, TERM=dumb   plain.py        a line for each event, a progress line every half minute
    --log-format json           structured.py   one JSON object a line

All write through outlet.py, which never waits for a reader: a terminal must not block a run.
"""

import os
from typing import TextIO

from orchestrator.engine.display_events import Display
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.plain import Plain


def make(*, quiet: bool, verbose: bool, log_format: str, stream: TextIO) -> Display:
    """Make the display for `stream`. quiet: failures and warnings only. verbose: also phases and evidence."""
    outlet = Outlet(stream)
    if log_format == "json":
        from orchestrator.terminal.structured import Structured

        return Structured(outlet, quiet=quiet, verbose=verbose)
    if not quiet and outlet.is_terminal and os.environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}:
        from orchestrator.terminal.live import LiveDisplay

        return LiveDisplay(outlet, verbose=verbose)
    return Plain(outlet, quiet=quiet, verbose=verbose)
