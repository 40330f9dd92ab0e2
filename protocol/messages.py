"""Messages between processes. zygote: has all modules imported, and forks workers. sampler: reads GPU telemetry.

    orchestrator ── Assign, Ack, Dismiss ──▶ worker
    orchestrator ◀── Hello, PhaseEntered, Progress, Outcome ── worker          DEALER ═ ipc ═ ROUTER

    orchestrator ── Prepare, Fork ──▶ zygote                                   a socket pair
    orchestrator ◀── Ready, Forked, ForkFailed ── zygote

    orchestrator ── AwaitFree ──▶ sampler                                      a socket pair
    orchestrator ◀── Digest, DeviceFree, ForeignSeen, XidSeen, GpuBroken, TooHot, Unavailable ── sampler

A launch is one attempt to measure a cell, in one worker for each device. A worker's message names its launch and
carries the token of its process; a message that does not match is stale and dropped.
"""

import struct
from typing import Final

import msgspec

from protocol.cell import Cell, Device, ModelSpec
from protocol.failure import Failure, Phase
from protocol.result import Result
from protocol.verification import Injection


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """Message on the wire: a map whose "type" is the class's name."""


# ── what a launch needs to begin, and to measure ──────────────────────────────────────────────────────────────────────


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Data that a new worker needs to connect to the orchestrator. Each process of a launch has its own.

    launch: its number in the run. token: secret text that identifies the process. endpoint: ZeroMQ address of the
    orchestrator. parent_pid: of the orchestrator. folder: for the files of LaunchPaths. environment: variables to set
    in the process. cpus: cores to run on, empty for no change. isolation: "fork" (of the zygote) or "exec" (a new
    interpreter). requested_ns: monotonic time of the request. root: folder from which to import the project's packages.
    preload: modules that a new interpreter imports. Empty for a fork.
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
    """Seconds that each phase may take, in addition to the durations in Measurement."""

    start: float
    import_: float = msgspec.field(name="import")
    build: float
    compile: float = 900.0
    warm_up: float
    measure: float
    finish: float

    def allowance(self, phase: Phase, measurement: "Measurement") -> float:
        """Return the seconds that `phase` may take, counted from its start.

        In a phase with a fixed number of iterations, the caller starts to count again at each Progress message.
        """
        return {
            Phase.START: self.start,
            Phase.IMPORT: self.import_,
            Phase.BUILD: self.build,
            Phase.COMPILE: self.compile,
            Phase.WARM_UP: self.warm_up + measurement.warm_up_cap_s,
            Phase.MEASURE: self.measure + measurement.max_s + measurement.load_s,
            Phase.FINISH: self.finish,
        }[phase]


SETTLING_S: Final = 0.5
"""Minimum seconds from first iteration to LoadWindow. Power and clock of a GPU settle within tenths of a second."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules that end warm-up and measurement, in seconds. A fixed number of iterations overrides the other rules.

    relative_half_width: target for half of the mean's confidence interval, divided by the mean (intervals.py). Reaching
    it ends the measurement after min_s at the earliest. max_s, warm_up_cap_s: longest measurement and warm-up. block_s:
    intended duration of a block (iterations between two synchronisations). give_up: stop early if the interval is not
    expected to come near its target by max_s. load_s: minimum length of the load window (protocol/result.py), 0 for no
    window. warm_up_iterations, iterations: fixed number of iterations of warm-up and measurement, else None.
    """

    relative_half_width: float
    block_s: float
    warm_up_cap_s: float
    min_s: float
    max_s: float
    give_up: bool = False
    load_s: float = 0.0
    warm_up_iterations: int | None = None
    iterations: int | None = None

    def fixed(self, phase: Phase) -> bool:
        """Whether `phase` runs a fixed number of iterations."""
        number = {Phase.WARM_UP: self.warm_up_iterations, Phase.MEASURE: self.iterations}.get(phase)
        return number is not None


class Gang(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connection of one process of a cell on several devices to the others. Rank 0 leads.

    rank: index of the process's device in `cell.devices`. meeting: file in a private folder, through which the
    processes connect: torch's FileStore, or a Unix socket in a simulated cell. steps: file with a counter for each
    rank, packed as STEP. It rises before each common operation. In a hang, the other ranks wait for the rank with the
    lowest counter.
    """

    rank: int
    meeting: str
    steps: str


STEP: Final = struct.Struct("=q")


class LoadSteps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Endlessly repeated load: on_s seconds of work, then off_s seconds of rest.

    offset_s: a time at which work begins, in seconds of the host's monotonic clock. Work also begins at all whole
    multiples of on_s + off_s before and after it.
    """

    on_s: float
    off_s: float
    offset_s: float = 0.0


class ChangingShapes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input sizes to call a compiled model with after its measurement, in each way of result.ShapeWay.

    bucket: in the way PADDED, each size is rounded up to a multiple of it.
    """

    sizes: tuple[int, ...]
    bucket: int


class Assign(_Message, frozen=True, kw_only=True):
    """The work of one process of a launch.

    cell.batch_size: already halved if memory was too small. round: in the plan, from 0. device: of this process.
    cache_folder: for files that launches share, such as the weights of load cells. compiler_caches: folder of caches
    for a compiled cell, and for the user's own code, which may compile itself. Else empty. shapes: None if this launch
    tries no changing input sizes. steps: None for continuous load. injection: fault that a burn-in cell must cause,
    usually None. gang: None for a cell on one device.
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
    compiler_caches: str = ""
    shapes: ChangingShapes | None = None
    injection: Injection | None = None
    gang: Gang | None = None
    steps: LoadSteps | None = None


class Ack(_Message, frozen=True, kw_only=True):
    """The orchestrator has written the outcome to disk; the worker may exit. token: of the Outcome that it answers."""

    launch: int
    token: str


class Dismiss(_Message, frozen=True, kw_only=True):
    """Answer to the Hello of a launch that is not expected; the worker exits. reason: text, not used by the worker."""

    launch: int
    reason: str


class Hello(_Message, frozen=True, kw_only=True):
    """First message of a worker. version: its protocol.VERSION. root: folder from which it imported gpubench.

    The orchestrator refuses a worker whose version or root differs from its own.
    """

    launch: int
    token: str
    version: int
    pid: int
    root: str


class PhaseEntered(_Message, frozen=True, kw_only=True):
    """The worker has entered a phase. at_ns: monotonic. The phase's deadline counts from receipt of this message."""

    launch: int
    token: str
    phase: Phase
    at_ns: int


class Progress(_Message, frozen=True, kw_only=True):
    """Progress of the worker. fraction: share of `phase` that is done, 0 to 1."""

    launch: int
    token: str
    phase: Phase
    fraction: float


class Outcome(_Message, frozen=True, kw_only=True):
    """End of a launch, as the worker reports it. Exactly one of result and failure is set."""

    launch: int
    token: str
    result: Result | None = None
    failure: Failure | None = None


# ── zygote ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Prepare(_Message, frozen=True, kw_only=True):
    """First message to a zygote. preload: modules to import. root: folder that the packages must come from."""

    preload: tuple[str, ...]
    root: str


class Fork(_Message, frozen=True, kw_only=True):
    """Request to the zygote to fork a new process for a launch."""

    spec: LaunchSpec


class Ready(_Message, frozen=True, kw_only=True):
    """The zygote has imported its modules, except for those in `failed`: module → error.

    import_ms: duration of the imports. threads: number of its threads now; with more than one, its forks may hang.
    """

    pid: int
    import_ms: float
    threads: int
    failed: dict[str, str] = {}


class Forked(_Message, frozen=True, kw_only=True):
    """The process with this token exists. It is, or is about to become, the orchestrator's child."""

    token: str
    pid: int


class ForkFailed(_Message, frozen=True, kw_only=True):
    """The process with this token could not be created."""

    token: str
    message: str


# ── telemetry ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reading of one GPU. at_ns: monotonic. Unreadable fields are None.

    gpu_percent, memory_percent: share of time in which a kernel ran, and in which device memory was read or written.
    Energy and violations (times with limited clocks) count since driver load. reasons: bit mask of NVML's clock events.
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
    """Newest sample of each GPU by UUID, sent once a second."""

    samples: dict[str, Sample]


class AwaitFree(_Message, frozen=True, kw_only=True):
    """Request to answer with DeviceFree once a GPU uses at most `limit_bytes`, or after `timeout_s` seconds."""

    uuid: str
    limit_bytes: int
    timeout_s: float


class DeviceFree(_Message, frozen=True, kw_only=True):
    """Answer to AwaitFree. free: True if the GPU uses at most `limit_bytes`, False at the timeout.

    If the memory cannot be read, the answer comes at once, with free=False and used_bytes=None. at_ns: monotonic.
    """

    uuid: str
    free: bool
    used_bytes: int | None
    at_ns: int


class Unavailable(_Message, frozen=True, kw_only=True):
    """NVML cannot be read, the sampler fails, or one of its files cannot be written. reason: text for the report."""

    reason: str


class ForeignProcess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Process outside the run that can use a GPU. Fields that could not be read are None. used_bytes: of GPU memory."""

    pid: int
    name: str | None
    used_bytes: int | None


class ForeignSeen(_Message, frozen=True, kw_only=True):
    """All foreign processes on a GPU, sent when their PIDs change: () when the last one has left. at_ns: monotonic."""

    uuid: str
    processes: tuple[ForeignProcess, ...]
    at_ns: int


class XidSeen(_Message, frozen=True, kw_only=True):
    """XID error of a GPU, reported by the driver. at_ns: monotonic."""

    uuid: str
    xid: int
    at_ns: int


class GpuBroken(_Message, frozen=True, kw_only=True):
    """A GPU that NVML reports as unusable. Sent once for each GPU. at_ns: monotonic.

    lost: True if it is absent or needs a reset, False if its hardware is faulty. reason: text for the report.
    """

    uuid: str
    reason: str
    at_ns: int
    lost: bool = True


class TooHot(_Message, frozen=True, kw_only=True):
    """A GPU that is too hot to continue. Sent once for each GPU. reason: text for the report. at_ns: monotonic."""

    uuid: str
    reason: str
    at_ns: int


FromWorker = Hello | PhaseEntered | Progress | Outcome
ToWorker = Assign | Ack | Dismiss
ToZygote = Prepare | Fork
FromZygote = Ready | Forked | ForkFailed
FromSampler = Digest | DeviceFree | ForeignSeen | Unavailable | XidSeen | GpuBroken | TooHot
