"""The resolved configuration, the plan, and the stored run (run.yaml, plan.json)."""

import enum
import hashlib

import msgspec

from orchestrator.config.report_formats import ReportFormat
from protocol.cell import Cell, Device, DeviceKind, MemoryFormat, Mode, ModelSpec, Precision, Workload
from protocol.messages import Deadlines, LoadSteps, Measurement

Slot = tuple[str, int]
"""One planned launch of a cell, or one scan for its batch size: (id of the cell, round from 0)."""


class Isolation(enum.StrEnum):
    """How the process of a launch is made: forked from a warmed zygote, or a new interpreter."""

    FORK = "fork"
    EXEC = "exec"


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One injected fault. device: UUID. round: from 0; None for all."""

    device: str
    round: int | None = None
    flip_bits: int = 0
    slow_percent: float = 0.0
    hot_c: int | None = None


class BurnIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A burn-in. level: of configs/burn_in.yaml. injections: faults on purpose.

    cell_s: seconds of one cell, by kind of device. max_temperature_c: stops a GPU, in addition to its own limit.
    steps: load and pause by device; empty without --steps.
    """

    duration_s: float
    level: str
    cell_s: dict[DeviceKind, float]
    injections: tuple[Asked, ...] = ()
    max_temperature_c: int | None = None
    steps: dict[str, LoadSteps] = {}


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a run does, from defaults, a file and the command line.

    models: requested ones, with probes. probes: all that ship; a plan adds some to GPUs that measure models.
    batch_sizes: of inference. sequence_lengths, input_sizes: in tokens, pixels; empty for each model's own.
    memory_format: of images; None for each model's own. modes: in the order of each round.
    required_signals: required for PASS, in addition to configs/health.yaml. history_db: None for the user's own.
    preset, time_limit_s: of `quick`, `triage` and burn-ins (their duration); else None. tainted: faults are injected.
    launches: rounds. adds_launches: more rounds while a GPU is SUSPECT (state/added_launches.py).
    measurement: its iterations and warm-up are None when adaptive.
    """

    models: tuple[ModelSpec, ...]
    probes: tuple[ModelSpec, ...] = ()
    workloads: tuple[Workload, ...]
    precisions: tuple[Precision, ...]
    batch_sizes: tuple[int, ...]
    training_batch_sizes: tuple[int, ...]
    generation_batch_sizes: tuple[int, ...] = (1,)
    sequence_lengths: tuple[int, ...] = ()
    input_sizes: tuple[int, ...] = ()
    memory_format: MemoryFormat | None = None
    profile: str
    measurement: Measurement
    launches: int
    seed: int
    modes: tuple[Mode, ...]
    isolation: Isolation
    gpu_ids: str
    allow_busy: bool
    monitor: bool
    monitor_interval_ms: int
    required_signals: tuple[str, ...] = ()
    deadlines: Deadlines
    cache_folder: str
    runs_folder: str
    output_path: str
    formats: tuple[ReportFormat, ...]
    history: bool = True
    history_db: str | None = None
    preset: str | None = None
    time_limit_s: float | None = None
    burn_in: BurnIn | None = None
    tainted: bool = False
    adds_launches: bool = False

    @property
    def cell_s(self) -> dict[DeviceKind, float] | None:
        """Seconds of every cell, by kind of device, until the time limit; None: as measured."""
        return None if self.burn_in is None else self.burn_in.cell_s

    @property
    def until_limit(self) -> bool:
        """Whether rounds repeat until the time limit, so that their number is unknown."""
        return self.burn_in is not None

    @property
    def by_name(self) -> dict[str, ModelSpec]:
        """Every model and probe that a cell of this run may name."""
        return {model.name: model for model in (*self.probes, *self.models)}


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A requested model that is not applicable to a device, and why. Neither a cell nor a failure."""

    device: str
    model: str
    why: str


class Room(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a scan for the batch size on a device.

    memory_bytes: for one process, None if unknown. largest: batch. longest_s: of an iteration.
    """

    memory_bytes: int | None
    largest: int
    longest_s: float


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What will be run, in which order on each device.

    order: device UUID → its slots in order. A cell on several devices is in the order of each.
    rooms: device UUID → bounds of its scans for the batch size.
    """

    cells: tuple[Cell, ...]
    order: dict[str, tuple[Slot, ...]]
    left_out: tuple[LeftOut, ...] = ()
    rooms: dict[str, Room] = {}

    @property
    def launches(self) -> int:
        """Number of planned launches on all devices."""
        return len(self.slots)

    @property
    def slots(self) -> frozenset[Slot]:
        """Planned launches, those on several devices once."""
        return frozenset(slot for queue in self.order.values() for slot in queue)

    @property
    def hash(self) -> str:
        """Identity of the plan, for resume."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


class StoredRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """run.yaml and plan.json: the configuration, the devices, the plan, and the command line.

    earlier: device UUID → findings of earlier runs against it, from the history.
    """

    tool_version: str
    run_id: str
    command: tuple[str, ...]
    configuration: Configuration
    devices: tuple[Device, ...]
    plan: Plan
    telemetry_note: str = ""
    earlier: dict[str, str] = {}
