"""Each attempt at a cell, put together from the records of a journal. Pure."""

from dataclasses import dataclass

from orchestrator.disk.records import Beside, End, Left, Segment, Start
from protocol.failure import Failure


@dataclass(frozen=True)
class Attempt:
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


@dataclass(slots=True)
class OpenAttempt:
    """What the journal says of an attempt, as far as it was read. ended_in: the segment that wrote its end."""

    segment: Segment
    start: Start
    end: End | None = None
    ended_in: Segment | None = None
    left: Left | None = None
    beside: str = ""
    withdrawn: str | None = None

    def take(self, record: End | Left | Beside, segment: Segment) -> None:
        """Add a later record of the attempt, and in which segment it stands."""
        match record:
            case End():
                self.withdrawn = None if self.end is None else self.end.result_sha256 or self.withdrawn
                self.end, self.ended_in = record, segment
            case Left():
                self.left = record
            case Beside():
                self.beside = record.by

    def attempt(self) -> Attempt:
        """The attempt, once every record was read."""
        lasted_ms = None
        if self.end is not None and self.ended_in == self.segment:
            lasted_ms = (self.end.at_ns - self.start.at_ns) / 1e6
        return Attempt(self.segment, self.start, self.end, self.left, lasted_ms, self.beside, self.withdrawn)
