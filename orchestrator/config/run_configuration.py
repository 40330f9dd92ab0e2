"""The resolved configuration, the plan, and the stored run (run.yaml, plan.json)."""

import enum
import hashlib

import msgspec

from orchestrator.config.report_formats import ReportFormat
from protocol.cell import Cell, CompileMode, Device, DeviceKind, MemoryFormat, Mode, ModelSpec, Precision, Workload
from protocol.messages import ChangingShapes, Deadlines, LoadSteps, Measurement

Slot = tuple[str, int]
"""A planned launch of a cell, or a scan for its batch size: (id of the cell, round from 0)."""


class Isolation(enum.StrEnum):
    """Way to start a launch. FORK: a fork of the zygote, which has imported torch. EXEC: a new interpreter."""

    FORK = "fork"
    EXEC = "exec"


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that a burn-in injects into a device (UUID): one of flip_bits, slow_percent or hot_c is set.

    flip_bits: number of bits to flip in one output of every cell, only in `round` (from 0). slow_percent: how much
    slower the device gets, in every round. hot_c: temperature that its readings show, in degrees Celsius, in every
    round.
    """

    device: str
    round: int | None = None
    flip_bits: int = 0
    slow_percent: float = 0.0
    hot_c: int | None = None


class BurnIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a burn-in. level: name in configs/burn_in.yaml. cell_s: seconds of one cell.

    injections: faults to cause on purpose. max_temperature_c: temperature (°C) at which a GPU is stopped even below its
    own limit; None: no such limit. steps: device UUID → its alternating load and pauses; empty without --steps.
    """

    duration_s: float
    level: str  # of configs/burn_in.yaml
    cell_s: dict[DeviceKind, float]  # seconds of one cell
    injections: tuple[InjectedFault, ...] = ()  # faults on purpose
    max_temperature_c: int | None = None  # stops a GPU, in addition to its own limit
    steps: dict[str, LoadSteps] = {}  # load and pause by device; empty without --steps


class GateSide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A side of a gate's comparison: the cells planned from `configuration`. models: names of its models in this run.

    label: the settings requested for this side ("precision=fp32"), "unchanged" without any. python: path of its
    interpreter; "": the one that runs gpubench.
    """

    label: str
    models: tuple[str, ...]
    configuration: "Configuration"
    python: str = ""


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison that decides when a run ends: of two `sides`, or (sides is empty) with the cells of a baseline.

    keys: keys of the baseline's cells to measure, as JSON; empty with two sides. percent: tolerated slow-down of every
    cell; None: the margins in configs/margins.yaml.
    """

    sides: tuple[GateSide, ...] = ()
    keys: tuple[str, ...] = ()
    percent: float | None = None


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a run does, from defaults, a file and the command line.

    models: requested models and probes. probes: all that ship; a plan adds some of them. batch_sizes: of inference.
    launches: of each cell. modes: in the order of each round. gpu_ids: as for --gpu-ids, "0,1" or "all". monitor:
    whether telemetry is recorded. output_path: absolute path of the report, as in -o. history_db: None for the user's
    own. preset: of `quick` or `triage`, or "ops", "study" or "gate"; None for other runs. time_limit_s: of the whole
    run; None without a limit. sequence_lengths (tokens), input_sizes (pixels): () for each model's own. shapes: input
    sizes to call compiled models with after their measurement. required_signals: health signals that PASS needs beside
    those of configs/health.yaml.
    implementations: of operators. study: name of the study, "" in other runs. tainted: faults are injected on purpose.
    adds_launches: whether launches are added while a GPU is SUSPECT.
    """

    models: tuple[ModelSpec, ...]  # requested ones, with probes
    probes: tuple[ModelSpec, ...] = ()  # all that ship: a plan adds some to GPUs that measure models
    workloads: tuple[Workload, ...]
    precisions: tuple[Precision, ...]
    batch_sizes: tuple[int, ...]  # of inference
    training_batch_sizes: tuple[int, ...]
    generation_batch_sizes: tuple[int, ...] = (1,)
    sequence_lengths: tuple[int, ...] = ()  # in tokens; empty: each model's own
    input_sizes: tuple[int, ...] = ()  # in pixels; empty: each model's own
    compile_modes: tuple[CompileMode, ...] = (CompileMode.EAGER,)  # of inference and training
    dynamic_shapes: bool = False  # of compiled models
    shapes: ChangingShapes | None = None  # that compiled models meet after their measurement
    memory_format: MemoryFormat | None = None  # of images; None: each model's own
    profile: str
    measurement: Measurement  # iterations and warm-up are None when adaptive
    launches: int  # rounds
    seed: int
    modes: tuple[Mode, ...]  # in the order of each round
    isolation: Isolation
    gpu_ids: str
    allow_busy: bool
    monitor: bool
    monitor_interval_ms: int
    required_signals: tuple[str, ...] = ()  # for PASS, in addition to configs/health.yaml
    deadlines: Deadlines
    cache_folder: str
    runs_folder: str
    output_path: str
    formats: tuple[ReportFormat, ...]
    history: bool = True
    history_db: str | None = None  # None: the user's own
    preset: str | None = None  # of `quick` and `triage`
    time_limit_s: float | None = None  # of a preset or a burn-in, whose process ends within it
    burn_in: BurnIn | None = None
    gate: Gate | None = None
    implementations: tuple[str, ...] = ()  # of operators, as in kinds/ops/settings.py
    study: str = ""  # name of the study, which is the grid of `models`
    tainted: bool = False  # faults are injected on purpose
    adds_launches: bool = False  # while a GPU is SUSPECT (state/added_launches.py)

    @property
    def cell_s(self) -> dict[DeviceKind, float] | None:
        """Duration of a burn-in cell in seconds, by kind of device; None if the run is no burn-in."""
        return None if self.burn_in is None else self.burn_in.cell_s

    @property
    def until_limit(self) -> bool:
        """Whether rounds repeat until the time limit, so that their number is unknown."""
        return self.burn_in is not None

    @property
    def adds_rounds(self) -> bool:
        """Whether a run may get any number of rounds beyond the planned ones, as in a burn-in or a gate."""
        return self.until_limit or self.gate is not None

    @property
    def least_launches(self) -> int:
        """Number of launches that each device starts even if they may exceed the time limit: 0 except in a gate.

        In a gate it is 1 for each side, and 1 if the comparison is with a baseline. Once no time is left, they are
        dropped, too.
        """
        return 0 if self.gate is None else max(1, len(self.gate.sides))

    @property
    def by_name(self) -> dict[str, ModelSpec]:
        """Every model and probe that a cell of this run may name."""
        return {model.name: model for model in (*self.probes, *self.models)}


class Exclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A requested model that is not applicable to a device, and why. Neither a cell nor a failure."""

    device: str
    model: str
    why: str


class Room(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a batch size scan: bytes of memory per process (None: unknown), batch size, seconds per iteration."""

    memory_bytes: int | None  # for one process, None if unknown
    largest: int  # batch
    longest_s: float  # of an iteration


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cells of a run. order: device UUID → its launches. rooms: device UUID → limits for scanning batch sizes."""

    cells: tuple[Cell, ...]
    order: dict[str, tuple[Slot, ...]]  # by device UUID; a cell on several devices is in the order of each
    excluded: tuple[Exclusion, ...] = ()
    rooms: dict[str, Room] = {}  # by device UUID, of plans with scans

    @property
    def launches(self) -> int:
        """Number of planned launches on all devices together. A launch on several devices counts once."""
        return len(self.slots)

    @property
    def slots(self) -> frozenset[Slot]:
        """All planned launches. A launch on several devices occurs once."""
        return frozenset(slot for queue in self.order.values() for slot in queue)

    @property
    def hash(self) -> str:
        """Hash (16 hex digits of SHA-256) of the plan, by which `resume` notices a changed plan.json."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


class StoredRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run as stored in run.yaml and plan.json: configuration, devices, plan, and command line.

    telemetry_note: why telemetry is incomplete, or "". earlier: device UUID → faults that earlier runs found, as text.
    """

    tool_version: str
    run_id: str
    command: tuple[str, ...]
    configuration: Configuration
    devices: tuple[Device, ...]
    plan: Plan
    telemetry_note: str = ""
    earlier: dict[str, str] = {}
