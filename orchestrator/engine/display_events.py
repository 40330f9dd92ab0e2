"""What a person sees of a running run: plain values that the loop makes and a display shows."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from orchestrator.state.slots import SlotStatus
from protocol.failure import Failure, Phase
from protocol.messages import Sample


class DeviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One device, now. Readings are None without telemetry, `cell` while it is idle. taken_out: see note."""

    uuid: str
    label: str
    name: str
    cell: str | None = None
    cell_id: str | None = None
    batch_size: int | None = None
    attempt: int = 1
    phase: Phase | None = None
    fraction: float = 0.0
    temperature_c: int | None = None
    power_w: float | None = None
    sm_clock_mhz: int | None = None
    sample: Sample | None = None
    taken_out: bool = False
    note: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run, now.

    done, total, failed: launches; total is None where rounds are added until the time is up. share: of the run that is
    over, 0 to 1. eta_s: seconds until nothing is measured any more, None if unknown. cells: by status, seconds old.
    """

    devices: tuple[DeviceLine, ...]
    done: int
    total: int | None
    share: float
    failed: int
    elapsed_s: float
    eta_s: float | None
    cells: Mapping[SlotStatus, int] = {}


class CellEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A launch is over. next_step: what will be done about a failure, in words, may be empty.

    iteration_ms: mean time of an iteration. cell: in words. cell_id: the planned one. again: it failed and is retried.
    """

    label: str
    cell: str
    batch_size: int
    attempt: int
    summary: str
    iteration_ms: float | None = None
    items_per_second: float | None = None
    cell_id: str | None = None
    failure: Failure | None = None
    again: bool = False
    next_step: str = ""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A message about the run as a whole. event, fields: name and JSON values for programs that read logs."""

    level: str
    message: str
    event: str = "notice"
    fields: dict[str, Any] = {}


class Display(Protocol):
    """Shows a run. Called from the loop, so every method returns at once."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the new state, at least once a second."""

    def tell(self, event: CellEnded | Notice) -> None:
        """Show an event."""

    def close(self) -> None:
        """Leave the terminal as it was found: the run is over."""
