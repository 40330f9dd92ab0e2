"""The configuration as resolved: what a run was asked to do, complete, and stored with it as run.yaml."""

import enum
import hashlib

import msgspec

from orchestrator.config.report_formats import ReportFormat
from protocol.cell import Cell, Device, DeviceKind, MemoryFormat, Mode, ModelSpec, Precision, Workload
from protocol.messages import Deadlines, LoadSteps, Measurement

Slot = tuple[str, int]
"""One planned launch of a cell, or one scan for its batch size: id of the cell, round."""


class Isolation(enum.StrEnum):
    """How the process of a launch is made: forked from a warmed zygote, or a new interpreter."""

    FORK = "fork"
    EXEC = "exec"


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One injected fault. device: UUID. round: from 0; None for all of them."""

    device: str
    round: int | None = None
    flip_bits: int = 0
    slow_percent: float = 0.0
    hot_c: int | None = None


class BurnIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A burn-in: for how long, which level of configs/burn_in.yaml, and the faults that it brings about itself.

    cell_s: seconds that one cell lasts, by kind of device. max_temperature_c: at which a GPU is stopped, beside its own
    limit; None where nobody asked for one. steps: by device, when it works and when it rests; empty without --steps.
    """

    duration_s: float
    level: str
    cell_s: dict[DeviceKind, float]
    injections: tuple[Asked, ...] = ()
    max_temperature_c: int | None = None
    steps: dict[str, LoadSteps] = {}


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a run does. Made of defaults, a file and the command line, in that order.

    models: those asked for, probes among them. probes: all that ship, because a plan adds some of them to GPUs on which
    models are measured.
    training_batch_sizes: those of training, which needs more memory; batch_sizes: those of inference.
    sequence_lengths, input_sizes: of models that count in tokens or in pixels; empty: each model's own.
    memory_format: of images; None: each model's own.
    modes: in the order in which each round has them.
    required_signals: of a GPU's health, without which there is no PASS, beyond what configs/health.yaml requires.
    history: whether the run is recorded; history_db: in which file, None for the one of whoever works on it.
    preset, time_limit_s: of `quick` and `triage`, whose process ends within the limit; None for every other run.
    burn_in: of a burn-in, whose time limit is its duration; None for every other run.
    tainted: faults are injected on purpose, so nothing of the run is a measurement.
    launches: rounds, so launches for each cell. adds_launches: whether there are more where these leave a GPU SUSPECT
    (state/added_launches.py). iterations and warm-up within `measurement` are None when adaptive.
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
        """Seconds that every cell lasts, by kind of device, until the time limit; None: as long as it measures."""
        return None if self.burn_in is None else self.burn_in.cell_s

    @property
    def until_limit(self) -> bool:
        """Whether rounds of the same cells are repeated until the time limit: nobody knows how many there will be."""
        return self.burn_in is not None

    @property
    def by_name(self) -> dict[str, ModelSpec]:
        """Every model and probe that a cell of this run may name."""
        return {model.name: model for model in (*self.probes, *self.models)}


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that was asked for and is not applicable to a device, and why: no cell of the plan, and no failure."""

    device: str
    model: str
    why: str


class Room(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What bounds a scan for the batch size on a device.

    memory_bytes: for one process, None where unknown. largest: a batch beyond which nobody looks. longest_s: an
    iteration is not to take longer.
    """

    memory_bytes: int | None
    largest: int
    longest_s: float


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What will be run, in which order on each device.

    order: device UUID → the planned launches of that device, in order; each is (id of a cell, round from 0). A cell on
    several devices stands in the order of each, and all of them have such cells in the same order.
    rooms: device UUID → what bounds its scans for the batch size, of plans that have any.
    """

    cells: tuple[Cell, ...]
    order: dict[str, tuple[tuple[str, int], ...]]
    left_out: tuple[LeftOut, ...] = ()
    rooms: dict[str, Room] = {}

    @property
    def launches(self) -> int:
        """How many are planned, on all devices together."""
        return len(self.slots)

    @property
    def slots(self) -> frozenset[tuple[str, int]]:
        """The planned launches, those on several devices once."""
        return frozenset(slot for queue in self.order.values() for slot in queue)

    @property
    def hash(self) -> str:
        """Identity of the plan, for resume."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


class StoredRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """run.yaml and plan.json: the configuration, the devices and the plan, and the command that asked for them.

    earlier: device UUID → what earlier runs have said against it, as the history had it when the run was begun.
    """

    tool_version: str
    run_id: str
    command: tuple[str, ...]
    configuration: Configuration
    devices: tuple[Device, ...]
    plan: Plan
    telemetry_note: str = ""
    earlier: dict[str, str] = {}
