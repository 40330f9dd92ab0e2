"""How large the logs of a self-test's launches became while their processes went on printing.

What is on disk afterwards tells nothing of that: a log is cut down when its process has ended (log_files.py), also
one that had filled the disk before.
"""

from pathlib import Path
from typing import Final

import msgspec

from orchestrator.engine.display_events import CellEnded, Display, Notice, Snapshot
from protocol.paths import RunPaths

_BLOCK: Final = 512


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The most that was seen of a log. printed_bytes: its length; disk_bytes: what it took of the disk."""

    printed_bytes: int = 0
    disk_bytes: int = 0


class Watch:
    """A display that also looks at the logs: each second, and when a launch is over, before its log is cut down."""

    def __init__(self, display: Display, paths: RunPaths) -> None:
        self._display = display
        self._paths = paths
        self._seen: dict[Path, Seen] = {}

    def seen(self, log: Path) -> Seen:
        """Of one log."""
        return self._seen.get(log, Seen())

    def show(self, snapshot: Snapshot) -> None:
        """Look at the log of every launch that is under way."""
        for line in snapshot.devices:
            self._look(line.cell_id, line.attempt)
        self._display.show(snapshot)

    def tell(self, event: CellEnded | Notice) -> None:
        """Look at the log of a launch that is over."""
        if isinstance(event, CellEnded):
            self._look(event.cell_id, event.attempt)
        self._display.tell(event)

    def close(self) -> None:
        """The run is over."""
        self._display.close()

    def _look(self, cell: str | None, attempt: int) -> None:
        if cell is None:
            return
        log = self._paths.launch(cell, attempt).stdout
        try:
            found = log.stat()
        except FileNotFoundError:
            return  # its process was not there yet
        before = self.seen(log)
        self._seen[log] = Seen(
            printed_bytes=max(before.printed_bytes, found.st_size),
            disk_bytes=max(before.disk_bytes, found.st_blocks * _BLOCK),
        )
