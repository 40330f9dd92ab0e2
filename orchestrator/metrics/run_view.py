"""Everything known of a run at one moment, for the metrics: plain values."""

import enum
from collections.abc import Mapping

import msgspec

from orchestrator.engine.display_events import Snapshot
from orchestrator.gpu.health.verdict import HealthVerdict
from protocol.cell import Device
from protocol.failure import Category


class RunStands(enum.StrEnum):
    """State of the run. BROKEN_OFF: ended without a report."""

    RUNNING = "running"
    OVER = "over"
    BROKEN_OFF = "broken off"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a cell's last good launch. label: of its device. batch_size: as measured."""

    label: str
    uuid: str
    model: str
    workload: str
    precision: str
    mode: str
    batch_size: int
    iteration_s: float | None
    items_per_second: float | None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One run, now.

    at, began: seconds since the epoch; boot: epoch minus monotonic time. snapshot: None before the first.
    figures: by planned cell. failures, retries: of this process. exit_code: once the run is over.
    health, burn_in: by UUID, once the report is made. node: of the machine.
    """

    run_id: str
    tool_version: str
    profile: str
    devices: tuple[Device, ...]
    began: float
    at: float
    boot: float
    stands: RunStands = RunStands.RUNNING
    exit_code: int | None = None
    snapshot: Snapshot | None = None
    figures: Mapping[str, Figure] = {}
    failures: Mapping[Category, int] = {}
    retries: int = 0
    health: Mapping[str, HealthVerdict] = {}
    burn_in: Mapping[str, HealthVerdict] = {}
    node: HealthVerdict | None = None
