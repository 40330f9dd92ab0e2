"""A display that records its calls."""

from orchestrator.engine.display_events import CellEnded, Notice, Snapshot


class RecordingDisplay:
    """given: snapshots, events, and "closed", in order."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def show(self, snapshot: Snapshot) -> None:
        self.given.append(snapshot)

    def tell(self, event: CellEnded | Notice) -> None:
        self.given.append(event)

    def close(self) -> None:
        self.given.append("closed")
