"""Each attempt at a cell, put together from the records of a journal. Pure."""

import msgspec

from orchestrator.store.records import Beside, End, Left, Segment, Start
from protocol.failure import Failure


class Attempt(msgspec.Struct, frozen=True):
    """One attempt at a cell. `end` is None when it was interrupted or still runs, `left` when nobody saw it leave.

    segment: in which it was started. Monotonic times of other segments do not compare with it (a reboot sets them
    back), so `lasted_ms` is None for an end that a later segment wrote. beside: who else computed on its GPU.
    withdrawn: hash of the file of a result that was recorded and does not count, None without one.
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
        """The planned launch that it is for: id of the cell, round."""
        return self.start.cell, self.start.round

    @property
    def promised(self) -> str | None:
        """Hash of the result file, None where there is no result."""
        return self.end.result_sha256 if self.end else None

    @property
    def failure(self) -> Failure | None:
        """Why there is no result; None for a good attempt, and for one without an end."""
        return self.end.failure if self.end else None

    @property
    def device(self) -> str:
        """UUID of the device that it is about: of several the one that failed, where that is known, or that leads."""
        return (self.failure and self.failure.device) or self.start.device

    @property
    def started(self) -> float:
        """When it was started, in seconds since the epoch."""
        return self.segment.at(self.start.at_ns)

    def after(self, record: End | Left | Beside, segment: Segment) -> "Attempt":
        """The attempt with a later record of it. segment: that which wrote the record."""
        match record:
            case End():
                lasted_ms = (record.at_ns - self.start.at_ns) / 1e6 if segment == self.segment else None
                withdrawn = None if self.end is None else self.end.result_sha256 or self.withdrawn
                return msgspec.structs.replace(self, end=record, lasted_ms=lasted_ms, withdrawn=withdrawn)
            case Left():
                return msgspec.structs.replace(self, left=record)
            case Beside():
                return msgspec.structs.replace(self, beside=record.by)
