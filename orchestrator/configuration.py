"""The configuration as resolved: what a run was asked to do, complete, and stored with it as run.yaml."""

import enum
import hashlib

import msgspec

from protocol.cell import Cell, Device, Mode, ModelSpec, Precision, Workload
from protocol.messages import Deadlines, Measurement


class Isolation(enum.StrEnum):
    """How the process of a launch is made: forked from a warmed zygote, or a new interpreter."""

    FORK = "fork"
    EXEC = "exec"


class ReportFormat(enum.StrEnum):
    """Formats of the report; the value is the file's suffix."""

    JSON = "json"
    CSV = "csv"
    TXT = "txt"


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a run does. Made of defaults, a file and the command line, in that order.

    training_batch_sizes: those of training, which needs more memory; batch_sizes: those of inference.
    launches: rounds, so launches for each cell. iterations and warm-up within `measurement` are None when adaptive.
    """

    models: tuple[ModelSpec, ...]
    workloads: tuple[Workload, ...]
    precisions: tuple[Precision, ...]
    batch_sizes: tuple[int, ...]
    training_batch_sizes: tuple[int, ...]
    profile: str
    measurement: Measurement
    launches: int
    seed: int
    mode: Mode
    isolation: Isolation
    gpu_ids: str
    allow_busy: bool
    monitor: bool
    monitor_interval_ms: int
    deadlines: Deadlines
    cache_folder: str
    runs_folder: str
    output_path: str
    formats: tuple[ReportFormat, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What will be run, in which order on each device.

    order: device UUID → the planned launches of that device, in order; each is (id of a cell, round from 0).
    """

    cells: tuple[Cell, ...]
    order: dict[str, tuple[tuple[str, int], ...]]

    @property
    def hash(self) -> str:
        """Identity of the plan, for resume."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


class StoredRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """run.yaml: the configuration, the devices and the plan, and the command that asked for them."""

    tool_version: str
    run_id: str
    command: tuple[str, ...]
    configuration: Configuration
    devices: tuple[Device, ...]
    plan: Plan
    telemetry_note: str = ""
