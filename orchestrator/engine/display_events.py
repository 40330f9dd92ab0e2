"""Events that a display shows, as plain values."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from orchestrator.state.slots import SlotStatus
from protocol.failure import Failure, Phase
from protocol.messages import Sample


class DeviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of one device.

    label: "GPU 0". name: of the product. cell: what is measured, for people. cell_id: id of the planned cell. cell,
    cell_id, batch_size and phase are None while the device is idle. attempt: its number, from 1. fraction: progress of
    the phase, 0 to 1. sample and the readings in it: None without telemetry. note: reason of the quarantine, else what
    an idle device waits for; may be "".
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
    """Current state of the whole run.

    done, total, failed: numbers of launches. done: need no more work. failed: skipped ones included; part of
    done. total: None if rounds are added until the time is up. share: part of the run that is over, 0 to 1. elapsed_s:
    since this process began to launch. eta_s: seconds until the last measurement ends, None if unknown. cells: status →
    number of cells when last counted.
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
    """The end of a launch (one measurement of a cell). summary: figures or the failure, in words. label: of the device.

    cell: what was measured, for people. cell_id: id of the planned cell. iteration_ms: mean; None without times.
    items_per_second: None also if the cell has no items. again: the launch failed and is retried. next_step: what
    gpubench does after a failure; "" for a result. repeated: an earlier launch failed with the same message.
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
    """A message about the run. level: "info", "warning" or "error". message: sentences for people.

    event, fields: kind of the message, such as "launches_added", and its JSON values, for programs that read logs.
    """

    level: str
    message: str
    event: str = "notice"
    fields: dict[str, Any] = {}


class Display(Protocol):
    """Shows a run. The loop calls it, so every method must return at once, even if nobody reads the output."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the state of the run. Called about once a second (rarely while results are read), and at each launch."""

    def tell(self, event: CellEnded | Notice) -> None:
        """Show the end of a launch, or a notice."""

    def close(self) -> None:
        """Restore the terminal after the run. Nothing is shown afterwards."""
