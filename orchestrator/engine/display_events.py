"""What a person sees of a run while it goes on: plain values that the loop makes and a display shows."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from orchestrator.state.slots import SlotStatus
from protocol.failure import Failure, Phase
from protocol.messages import Sample


class DeviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One device, now. Readings are None where there is no telemetry; `cell` is None while it is idle.

    sample: the newest, of which the three readings are part. taken_out: it is not used any more, and note says why.
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
    taken_out: bool = False
    note: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run, now.

    done, total, failed: launches; of a burn-in, which goes on until its time is up, total is None. share: of the run
    that is over, from 0 to 1. eta_s: until nothing is measured any more, None until that can be told. cells: how many
    stand where, some seconds ago.
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
    """A launch is over. `next_step` says in words what will be done about a failure, empty where nothing is.

    iteration_ms: mean time of an iteration. It and items_per_second are None where there is no such figure. cell: in
    words; cell_id: the planned one, as the report has it. again: it failed, and is tried once more.
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
    """Something a person should know: a warning about the run as a whole, a stop that was asked for.

    event: what a program that reads logs knows it by; fields: JSON values, what such a program wants to know of it.
    """

    level: str
    message: str
    event: str = "notice"
    fields: dict[str, Any] = {}


class Display(Protocol):
    """Shows a run. Called from the loop, so every method returns at once."""

    def show(self, snapshot: Snapshot) -> None:
        """The state changed, or a second went by."""

    def tell(self, event: CellEnded | Notice) -> None:
        """Something happened."""

    def close(self) -> None:
        """The run is over; leave the terminal as it was found."""
