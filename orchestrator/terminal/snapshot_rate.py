"""Select the snapshots that are worth a line in a log."""

from collections.abc import Callable
from typing import Final

from orchestrator.engine.display_events import DeviceLine, Snapshot
from protocol.failure import Phase

PROGRESS_EVERY_S: Final = 30.0


class Pace:
    """Remembers the last line. now: monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._said_at = now()
        self._phases: dict[str, tuple[str | None, Phase | None]] = {}

    def due(self) -> bool:
        """Whether half a minute passed since this was last true, or since the start."""
        if self._now() - self._said_at < PROGRESS_EVERY_S:
            return False
        self._said_at = self._now()
        return True

    def entered(self, snapshot: Snapshot) -> list[DeviceLine]:
        """Return the devices whose phase or cell has changed since the last snapshot."""
        before = self._phases
        self._phases = {line.uuid: (line.cell, line.phase) for line in snapshot.devices}
        return [
            line
            for line in snapshot.devices
            if line.phase is not None and before.get(line.uuid) != self._phases[line.uuid]
        ]
