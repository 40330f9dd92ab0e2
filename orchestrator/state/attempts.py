"""Attempts at cells (things to measure), built from the records of a journal. Pure."""

import msgspec

from orchestrator.store.journal_records import Beside, End, Left, Segment, Start
from protocol.failure import Failure


class Attempt(msgspec.Struct, frozen=True):
    """One attempt at a cell. segment: the session that began it.

    end: the newest End, which may withdraw an earlier one's result; None while it runs, or if it was interrupted and
    the run not yet resumed. left: None if no exit is recorded. lasted_ms: from start to end; None without an end in the
    same session. beside: another process on its GPU, such as "PID 4711 python", if the result counts nevertheless; else
    "". withdrawn: SHA-256 of its withdrawn result.
    """

    segment: Segment
    start: Start
    end: End | None = None
    left: Left | None = None
    lasted_ms: float | None = None
    beside: str = ""
    withdrawn: str | None = None

    @property
    def slot(self) -> tuple[str, int]:
        """The planned launch, as (cell id, round)."""
        return self.start.cell, self.start.round

    @property
    def promised(self) -> str | None:
        """The expected SHA-256 (hex) of the result file; None without a result, and after its withdrawal."""
        return self.end.result_sha256 if self.end else None

    @property
    def failure(self) -> Failure | None:
        """The reason why there is no result, or why it was withdrawn; None with a result, or without a recorded end."""
        return self.end.failure if self.end else None

    @property
    def device(self) -> str:
        """The UUID of the device that failed, if known; else of the first device of the cell."""
        return (self.failure and self.failure.device) or self.start.device

    @property
    def started(self) -> float:
        """The start in seconds since the epoch."""
        return self.segment.at(self.start.at_ns)

    def after(self, record: End | Left | Beside, segment: Segment) -> "Attempt":
        """Return the attempt updated by a later record. segment: the session that wrote the record."""
        match record:
            case End():
                lasted_ms = (record.at_ns - self.start.at_ns) / 1e6 if segment == self.segment else None
                withdrawn = None if self.end is None else self.end.result_sha256 or self.withdrawn
                return msgspec.structs.replace(self, end=record, lasted_ms=lasted_ms, withdrawn=withdrawn)
            case Left():
                return msgspec.structs.replace(self, left=record)
            case Beside():
                return msgspec.structs.replace(self, beside=record.by)
