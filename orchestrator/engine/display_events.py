"""Events that a display shows, as plain values."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from orchestrator.state.slots import SlotStatus
from protocol.failure import Failure, Phase
from protocol.messages import Sample


class DeviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of one device. Its readings are None without telemetry, its `cell` is None while it is idle.

    label: "GPU 0". name: of the product. cell: what is measured, for people; cell_id: id of the planned cell. fraction:
    progress of the phase, 0 to 1. note: the reason of the quarantine, else what an idle device waits for; may be empty.
    """

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
    quarantined: bool = False
    note: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of the whole run. cells: number of cells (things to measure) by status, counted some seconds ago.

    done, total, failed: numbers of launches (measurements); total is None where rounds are added until the time is up.
    share: part of the run that is over, 0 to 1. eta_s: seconds until the last measurement ends, None if unknown.
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
    """The end of a launch (one measurement of a cell). next_step: what gpubench does about a failure, may be empty.

    cell: what was measured, for people. cell_id: id of the planned cell. again: the launch failed and is retried.
    repeated: an earlier launch failed with the same message.
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
    repeated: bool = False


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A message about the run, with a name (event) and JSON values (fields) for programs that read logs."""

    level: str
    message: str
    event: str = "notice"
    fields: dict[str, Any] = {}


class Display(Protocol):
    """Shows a run. The loop calls it, so every method returns at once."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the current state of the run. Called at least once a second."""

    def tell(self, event: CellEnded | Notice) -> None:
        """Show that a launch has ended, or a notice."""

    def close(self) -> None:
        """Restore the terminal after the run."""
