"""The words of the conversation, and who says them.

    orchestrator ── Assign, Ack, Dismiss ──▶ worker
    orchestrator ◀── Hello, PhaseEntered, Progress, Outcome ── worker          DEALER ═ ipc ═ ROUTER

    orchestrator ── Prepare, Fork ──▶ zygote                                   a socket pair
    orchestrator ◀── Ready, Forked, ForkFailed ── zygote

    orchestrator ── AwaitFree ──▶ sampler                                      a socket pair
    orchestrator ◀── Digest, DeviceFree, ForeignSeen, XidSeen, GpuBroken, TooHot, Unavailable ── sampler

Every message of a worker names its launch and carries the token of its process, which is one of several for a gang;
what does not match is stale and dropped.
"""

import struct
from typing import Final

import msgspec

from protocol.cell import Cell, Device, ModelSpec
from protocol.failure import Failure, Phase
from protocol.result import Result
from protocol.verification import Injection


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """A message on the wire: a map whose "type" is the class's name."""


# ── what a launch needs to begin, and to measure ──────────────────────────────────────────────────────────────────────


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new process needs before it connects. A launch on several devices has one for each.

    folder: of its log files. environment: set after the fork (CUDA_VISIBLE_DEVICES). cpus: cores to run on, empty for
    no change. requested_ns: monotonic time of the request. root: folder of the packages. preload: imports of a new
    interpreter; empty for a fork.
    """

    launch: int
    token: str
    endpoint: str
    parent_pid: int
    folder: str
    environment: dict[str, str]
    cpus: tuple[int, ...]
    isolation: str
    requested_ns: int
    root: str
    preload: tuple[str, ...] = ()


class Deadlines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds that each phase of a launch may take, beyond what the profile itself gives it."""

    start: float
    import_: float = msgspec.field(name="import")
    build: float
    warm_up: float
    measure: float
    finish: float

    def allowance(self, phase: Phase, measurement: "Measurement") -> float:
        """Seconds that `phase` may take, counted from its beginning or, with fixed iterations, its last progress."""
        return {
            Phase.START: self.start,
            Phase.IMPORT: self.import_,
            Phase.BUILD: self.build,
            Phase.WARM_UP: self.warm_up + measurement.warm_up_cap_s,
            Phase.MEASURE: self.measure + measurement.max_s,
            Phase.FINISH: self.finish,
        }[phase]


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to warm up and to measure, in seconds. Fixed numbers of iterations override adaptive stopping.

    give_up: whether measuring ends, from `min_s` on, as soon as the interval cannot come near its target in `max_s`.
    """

    relative_half_width: float
    block_s: float
    warm_up_cap_s: float
    min_s: float
    max_s: float
    give_up: bool = False
    warm_up_iterations: int | None = None
    iterations: int | None = None

    def fixed(self, phase: Phase) -> bool:
        """Whether `phase` goes on for a number of iterations, however long they take."""
        number = {Phase.WARM_UP: self.warm_up_iterations, Phase.MEASURE: self.iterations}.get(phase)
        return number is not None


class Gang(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a process finds the others of its cell, one for each of `cell.devices`, in order.

    rank: its place; 0 leads. meeting: file in a private folder, by which they meet. steps: file of a STEP for each
    rank, counted before each common operation: in a hang, the lowest did not come.
    """

    rank: int
    meeting: str
    steps: str


STEP: Final = struct.Struct("=q")
"""One number in the file of steps."""


class LoadSteps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a device works and when it rests, by the host's monotonic clock: all devices of a host go by the same one.

    Work begins offset_s after each multiple of on_s + off_s, and goes on for on_s.
    """

    on_s: float
    off_s: float
    offset_s: float = 0.0


class Assign(_Message, frozen=True, kw_only=True):
    """The work of one process of a launch. `cell.batch_size` is what to run now, after any halving.

    round: of the plan, from 0, the same on all devices. device: of this process. gang: None for a single process.
    injection: a fault that a burn-in cell must show.
    """

    launch: int
    token: str
    cell: Cell
    round: int = 0
    device: Device
    model: ModelSpec
    measurement: Measurement
    deadlines: Deadlines
    cache_folder: str
    injection: Injection | None = None
    gang: Gang | None = None
    steps: LoadSteps | None = None


class Ack(_Message, frozen=True, kw_only=True):
    """The outcome is on disk; the worker may leave."""

    launch: int
    token: str


class Dismiss(_Message, frozen=True, kw_only=True):
    """Nobody waits for this launch any more; the worker leaves at once."""

    launch: int
    reason: str


class Hello(_Message, frozen=True, kw_only=True):
    """The worker is alive. `root` is the folder that its rooms were imported from; the parent's must be the same."""

    launch: int
    token: str
    version: int
    pid: int
    root: str


class PhaseEntered(_Message, frozen=True, kw_only=True):
    """A phase begins, and with it its deadline."""

    launch: int
    token: str
    phase: Phase
    at_ns: int


class Progress(_Message, frozen=True, kw_only=True):
    """How far the phase has come: 0 to 1."""

    launch: int
    token: str
    phase: Phase
    fraction: float


class Outcome(_Message, frozen=True, kw_only=True):
    """How the launch ended, seen from inside. Exactly one of the two is set."""

    launch: int
    token: str
    result: Result | None = None
    failure: Failure | None = None


# ── zygote ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Prepare(_Message, frozen=True, kw_only=True):
    """First word to a zygote: what to import, and where its rooms must come from."""

    preload: tuple[str, ...]
    root: str


class Fork(_Message, frozen=True, kw_only=True):
    """Make this fresh process."""

    spec: LaunchSpec


class Ready(_Message, frozen=True, kw_only=True):
    """The zygote has imported what it was told to. failed: module → what was raised."""

    pid: int
    import_ms: float
    threads: int
    failed: dict[str, str] = {}


class Forked(_Message, frozen=True, kw_only=True):
    """The process of this token exists; it is, or is about to become, the orchestrator's child."""

    token: str
    pid: int


class ForkFailed(_Message, frozen=True, kw_only=True):
    """The kernel refused to make the process of this token."""

    token: str
    message: str


# ── telemetry ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reading of one GPU. at_ns: monotonic. Unreadable fields are None.

    Power in milliwatts, energy in millijoules since the driver was loaded, clocks in MHz, utilisation in percent;
    reasons: NVML's bit mask of clock event reasons; violations in nanoseconds since the driver was loaded.
    """

    at_ns: int
    gpu_percent: int | None = None
    memory_percent: int | None = None
    memory_used_bytes: int | None = None
    power_mw: int | None = None
    energy_mj: int | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    reasons: int | None = None
    thermal_violation_ns: int | None = None
    power_violation_ns: int | None = None


class Digest(_Message, frozen=True, kw_only=True):
    """Once a second: the newest sample of each GPU, by UUID."""

    samples: dict[str, Sample]


class AwaitFree(_Message, frozen=True, kw_only=True):
    """Say when the GPU's used memory is back at or below `limit_bytes`, or that it was not within `timeout_s`."""

    uuid: str
    limit_bytes: int
    timeout_s: float


class DeviceFree(_Message, frozen=True, kw_only=True):
    """Answer to AwaitFree. used_bytes is None where NVML could not say."""

    uuid: str
    free: bool
    used_bytes: int | None
    at_ns: int


class Unavailable(_Message, frozen=True, kw_only=True):
    """NVML cannot be read, and why, in words for the report."""

    reason: str


class ForeignProcess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process of somebody else that can run kernels on a GPU. None for what cannot be read."""

    pid: int
    name: str | None
    used_bytes: int | None


class ForeignSeen(_Message, frozen=True, kw_only=True):
    """Who else computes on a GPU, said when that changes; nobody when the last has left. at_ns: monotonic."""

    uuid: str
    processes: tuple[ForeignProcess, ...]
    at_ns: int


class XidSeen(_Message, frozen=True, kw_only=True):
    """The driver reported an error of a GPU by its number, which NVIDIA's documentation explains. at_ns: monotonic."""

    uuid: str
    xid: int
    at_ns: int


class GpuBroken(_Message, frozen=True, kw_only=True):
    """NVML says that a GPU is not to be used any more: `reason`, in words. Said once. at_ns: monotonic.

    lost: it is gone, or of no use before a reset; else it still answers, and what it says is a fault of its hardware.
    """

    uuid: str
    reason: str
    at_ns: int
    lost: bool = True


class TooHot(_Message, frozen=True, kw_only=True):
    """A GPU is too hot to go on, `reason` in words. Said once. at_ns: monotonic."""

    uuid: str
    reason: str
    at_ns: int


FromWorker = Hello | PhaseEntered | Progress | Outcome
ToWorker = Assign | Ack | Dismiss
ToZygote = Prepare | Fork
FromZygote = Ready | Forked | ForkFailed
FromSampler = Digest | DeviceFree | ForeignSeen | Unavailable | XidSeen | GpuBroken | TooHot
