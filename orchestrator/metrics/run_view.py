"""State of a run at one moment, for the metrics: plain values."""

import enum
from collections.abc import Mapping

import msgspec

from orchestrator.engine.display_events import Snapshot
from orchestrator.gpu.health.verdict import HealthVerdict
from protocol.cell import Device
from protocol.failure import Category


class RunState(enum.StrEnum):
    """State of the run. OVER: the run ended with a report. BROKEN_OFF: it ended without one."""

    RUNNING = "running"
    OVER = "over"
    BROKEN_OFF = "broken off"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """The last good measurement of a cell. None: unknown.

    label, uuid: of its device. batch_size: as measured, maybe below the planned one. iteration_s: mean.
    mode: "loaded" or "solo". items_per_second: throughput, None also if the cell has no items.
    """

    label: str  # of its device
    uuid: str
    model: str
    workload: str
    precision: str
    mode: str
    batch_size: int  # as measured
    iteration_s: float | None
    items_per_second: float | None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """State of one run. at: when the run last reported its progress, verdicts or end; other fields may be newer.

    tool_version: of gpubench. profile: kind of run, such as "standard" or "burn-in quick". began, at: seconds since the
    epoch. boot: number that, added to monotonic seconds, gives seconds since the epoch. exit_code: None until the run
    ends. snapshot: progress; None until the run first reports it. figures: by id of the planned cell. failures,
    retries: numbers in this process, not in earlier sessions; withdrawn results are among the failures. health,
    burn_in: verdicts by device UUID. node: verdict on the machine. These three are unset until the report is made.
    """

    run_id: str
    tool_version: str
    profile: str
    devices: tuple[Device, ...]
    began: float  # seconds since the epoch
    at: float  # seconds since the epoch
    boot: float  # epoch minus monotonic time
    state: RunState = RunState.RUNNING
    exit_code: int | None = None  # once the run is over
    snapshot: Snapshot | None = None  # None before the first
    figures: Mapping[str, Figure] = {}  # by planned cell
    failures: Mapping[Category, int] = {}  # of this process
    retries: int = 0  # of this process
    health: Mapping[str, HealthVerdict] = {}  # by UUID, once the report is made
    burn_in: Mapping[str, HealthVerdict] = {}  # by UUID, once the report is made
    node: HealthVerdict | None = None  # of the machine
