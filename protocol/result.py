"""Results of a worker: raw times and sizes. The orchestrator derives statistics from them."""

import enum
from functools import cached_property
from typing import Final

import msgspec

from protocol import floats
from protocol.cell import Cell
from protocol.errors import ProtocolError
from protocol.verification import Verification

COUNTED_WITHIN_MS: Final = 2_000.0
"""Longest iteration whose floating-point operations are counted, because counting slows an extra iteration down."""


class SteadyState(enum.StrEnum):
    """Whether times became steady during warm-up. NONE: they did not. FIXED, NOT_SOUGHT: not tested."""

    REACHED = "reached"
    NONE = "none"
    FIXED = "fixed number of iterations"
    NOT_SOUGHT = "not looked for"


class StopReason(enum.StrEnum):
    """Reason why the measurement ended, by the rules in messages.Measurement.

    TARGET: the mean's confidence interval became narrow enough. TIME_CAP: max_s had passed. OUT_OF_REACH: the interval
    was not expected to become narrow enough in time (give_up). FIXED: also for operators, whatever was requested.
    """

    TARGET = "interval target reached"
    TIME_CAP = "time cap"
    OUT_OF_REACH = "interval target out of reach"
    FIXED = "fixed number of iterations"


class SeriesName(enum.StrEnum):
    """Name of a series of measured times. Every workload has ITERATION, and may have others of the following.

    Operators: ITERATION holds rounds of calls. Training, except by a user's own train_step: FORWARD, BACKWARD,
    OPTIMIZER. Inference: FORWARD, and LATENCY (end to end, with its own number of values; on a CPU device the times of
    FORWARD). Load: INSTANTIATE, WEIGHTS, TO_DEVICE. Generation: FIRST_TOKEN (one value an iteration), INTER_TOKEN
    (new_tokens - 1 values an iteration). Probes: BEST (faster trial run of gemm with the chosen matrix size), COPY,
    TRIAD. Links of a burn-in: COPIES (between devices), TO_HOST, TO_DEVICE, ALL_REDUCE, and two series without a member
    here, "prepare" and "verify".
    """

    ITERATION = "iteration"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    LATENCY = "latency"
    INSTANTIATE = "instantiate"
    WEIGHTS = "weights"
    TO_DEVICE = "to_device"
    FIRST_TOKEN = "first_token"  # noqa: S105  # a time, no secret
    INTER_TOKEN = "inter_token"  # noqa: S105  # a time, no secret
    BEST = "best"
    COPY = "copy"
    TRIAD = "triad"
    COPIES = "copies"
    TO_HOST = "to_host"
    ALL_REDUCE = "all_reduce"


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Iterations between two synchronisations with the device. enqueued_ns: when the host had enqueued all of them.

    Times are nanoseconds of the host's monotonic clock.
    """

    start_ns: int
    enqueued_ns: int
    end_ns: int
    iterations: int


class LoadWindow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Period of steady work over which a GPU's power and utilisation are read. start_ns, end_ns: monotonic.

    It contains the measured blocks, but begins SETTLING_S (protocol/messages.py) after the first iteration at the
    earliest. iterations: number of further, untimed iterations after the measured blocks.
    """

    start_ns: int
    end_ns: int
    iterations: int


class WarmUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts of the warm-up, times in milliseconds. second_iteration_ms: None if there was only one iteration.

    course: median time of an iteration in each block after the second iteration, packed by protocol.floats; empty if
    warm-up did not wait for steady times. settled_blocks: number of blocks at its end that had settled
    (protocol.settling).
    """

    steady_state: SteadyState
    iterations: int
    first_iteration_ms: float
    second_iteration_ms: float | None
    course: bytes = b""
    settled_blocks: int = 0


class ShapeWay(enum.StrEnum):
    """Way to compile a model for input sizes that change. PADDED: as STATIC, with each size padded to a bucket."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    PADDED = "padded"


class ShapeCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of a model. size: input size before padding. compiled: `ms` includes the compilation of a graph."""

    size: int
    ms: float
    compiled: bool


class ShapeTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls with changing input sizes, for one ShapeWay.

    error: reason why there are no calls. reasons: of recompilations, "file:line: reason", each once, at most 20.
    limited: torch reached its limit of recompilations of a function, so later calls ran eager. elements,
    padded_elements: number of elements in the inputs of all calls, before and after padding.
    """

    way: ShapeWay
    error: str = ""
    calls: tuple[ShapeCall, ...] = ()
    recompilations: int = 0
    reasons: tuple[str, ...] = ()
    limited: bool = False
    elements: int = 0
    padded_elements: int = 0


class Compilation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Compilation of a launch's model by torch.compile. own: the model's code called it, not gpubench.

    cached: an earlier launch had filled the caches. compile_ms: time that TorchDynamo and its backend took for all
    graphs. first_call_ms: the first iteration and its compilation. graphs: number made. graph_breaks, recompilations:
    "file:line: reason", each once, at most 20. The next three compare the outputs (in training: the losses) with those
    of eager, for equal weights and inputs. They are None if unknown. absolute_error: largest difference.
    relative_error: largest difference divided by the largest eager value. cosine_distance: 1 - cosine. shapes: trials
    with changing input sizes.
    """

    own: bool = False
    cached: bool = False
    compile_ms: float | None = None
    first_call_ms: float | None = None
    graphs: int = 0
    graph_breaks: tuple[str, ...] = ()
    recompilations: tuple[str, ...] = ()
    absolute_error: float | None = None
    relative_error: float | None = None
    cosine_distance: float | None = None
    shapes: tuple[ShapeTrial, ...] = ()


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Peaks of memory in bytes. allocated, reserved: by torch's CUDA allocator; None on a CPU device.

    model_bytes: parameters and buffers. cold: peaks of the warm-up, from the first iteration on. warm: peaks of the
    measured blocks alone. resident_bytes: peak of the process's memory on the host.
    """

    model_bytes: int
    cold_allocated_bytes: int | None = None
    cold_reserved_bytes: int | None = None
    warm_allocated_bytes: int | None = None
    warm_reserved_bytes: int | None = None
    resident_bytes: int


class Ledger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time of a launch in milliseconds, by phase.

    start: from the request until the worker has received its Assign. context: opening the device. load: first load of
    the model (load cells only). measure: all series, latencies and the load window. count: counting operations,
    checking outputs.
    """

    start_ms: float
    import_ms: float
    context_ms: float
    build_ms: float
    compile_ms: float = 0.0
    load_ms: float
    warm_up_ms: float
    measure_ms: float
    count_ms: float = 0.0


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Software and settings of the worker's process that change what is measured.

    Versions are None if not installed. cuda: version for which torch is built. cudnn: as one number, such as "91002".
    threads: number that torch uses. collector_enabled: Python's garbage collector is on. flags: setting of torch,
    Python or the environment → value. isolation: "fork" or "exec".
    """

    python: str
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    torchvision: str | None = None
    transformers: str | None = None
    jax: str | None = None
    threads: int
    collector_enabled: bool
    flags: dict[str, str] = {}
    isolation: str


class OperationTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation within one call. calls: how often it ran. time_ms: total, without the operations it called."""

    name: str
    calls: int
    time_ms: float


class CallProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of an operator under a profiler, in addition to the timed calls.

    compile_ms: compile time of the first call. None if nothing is compiled. peak_bytes: peak memory of a call and its
    inputs. On a CPU device it is that of the whole process. kernels: number launched on a GPU. On a CPU device,
    operators that call no other operator count. None if no kernel was seen. top: longest operations, longest first.
    """

    compile_ms: float | None = None
    peak_bytes: int | None = None
    kernels: int | None = None
    top: tuple[OperationTime, ...] = ()


class ShapeResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Result of one OperatorShape.

    shape: its name. error: why it was not measured. wrong: how the output differs from the reference. unsupported: why
    the implementation cannot compute it at all. These three are empty if all is well. deviation: largest deviation,
    relative to the reference; None if it is not finite or unknown. compared: False if shape, type or device was wrong.
    series: name → milliseconds of a call (protocol.floats), empty if the output is wrong. "host": until the call
    returns to the host. "real": until an idle device has finished it. "pure": mean of calls back to back, for each
    round of such calls. Names in "_backward": forward and backward pass together. graphed: the calls of "pure" (and
    "pure_backward") ran as CUDA graphs. no_gradient: gradients could not be verified, because the output is wrong,
    requires no gradient or was computed by JAX. Otherwise False, even for an operator without backward pass. profile:
    set for profiled operators.
    """

    shape: str
    error: str = ""
    wrong: str = ""
    unsupported: str = ""
    deviation: float | None = None
    compared: bool = True
    series: dict[str, bytes] = {}
    graphed: bool = False
    no_gradient: bool = False
    profile: CallProfile | None = None


class MeasuredIterations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Result of the measuring loop. group: each value of a series is the mean of so many iterations.

    series: SeriesName → milliseconds of an iteration, in measured order, packed by protocol.floats. launch_bound: True
    if the device waited for the host. host_share: the host's time to enqueue an iteration, divided by the iteration's
    time. launch_bound and host_share are None on CPU devices and where an iteration itself waits for the device.
    host_cpu: mean number of CPU cores that the process kept busy while it measured.
    """

    blocks: tuple[Block, ...]
    series: dict[str, bytes]
    group: int = 1
    stop_reason: StopReason
    launch_bound: bool | None = None
    host_share: float | None = None
    host_cpu: float | None = None


class Result(MeasuredIterations, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Everything that one launch measured.

    flops_per_iteration: floating-point operations. None if not counted, or if torch's counter misses some.
    bytes_per_iteration: series → bytes moved, for probes, memory tests and links. generated_tokens: number over all
    sequences and measured iterations. loss: sum over the losses of the last training step. verification: burn-in only.
    others: UUID of another device of the cell → verification by its process. load: None without a load window.
    compilation: None for operators, and for an eager model that does not compile itself. shapes: results of an
    operator's shapes, in measured order. parameters: number in the built model. items_per_iteration: number of samples.
    """

    cell: Cell
    parameters: int
    items_per_iteration: int
    ledger: Ledger
    warm_up: WarmUp
    flops_per_iteration: float | None = None
    bytes_per_iteration: dict[str, int] = {}
    generated_tokens: int | None = None
    memory: Memory
    loss: float | None = None
    verification: Verification | None = None
    others: dict[str, Verification] = {}
    load: LoadWindow | None = None
    compilation: Compilation | None = None
    shapes: tuple[ShapeResult, ...] = ()
    environment: Environment
    format: int = 1

    @property
    def worked(self) -> tuple[Block, ...]:
        """The measured blocks, and one more block with the load window's further iterations if there are any."""
        if self.load is None or not self.load.iterations:
            return self.blocks
        start_ns, end_ns = self.blocks[-1].end_ns, self.load.end_ns
        rest = Block(start_ns=start_ns, enqueued_ns=end_ns, end_ns=end_ns, iterations=self.load.iterations)
        return (*self.blocks, rest)

    def times_ms(self, name: str) -> list[float]:
        """Return the series `name`: milliseconds of an iteration, in measured order. Empty if it was not measured.

        Do not modify the list. Raises ProtocolError if any series is damaged. The property `flaw` tests for this.
        """
        return self._times_ms.get(name, [])

    @cached_property
    def _times_ms(self) -> dict[str, list[float]]:
        times_ms: dict[str, list[float]] = {}
        for name, data in self.series.items():
            try:
                times_ms[name] = floats.unpack(data)
            except ProtocolError as error:
                raise ProtocolError(f"{name}: {error}") from error
        return times_ms

    @cached_property
    def warm_up_ms(self) -> list[float]:
        """WarmUp.course as a list of milliseconds. Do not modify it. Raises ProtocolError if damaged (see `flaw`)."""
        return floats.unpack(self.warm_up.course)

    @property
    def flaw(self) -> str | None:
        """Reason why this result is damaged or impossible, such as "latency: a time is below zero", else None."""
        try:
            unpacked, warm_up_blocks = self._times_ms, len(self.warm_up_ms)
        except ProtocolError as error:
            return str(error)
        if not 0 <= self.warm_up.settled_blocks <= warm_up_blocks:
            return "more blocks of the warm-up had settled than there were"
        for name, data in self.series.items():
            if floats.has_sign(data) and min(unpacked[name]) < 0:
                return f"{name}: a time is below zero"
        if any(block.end_ns < block.start_ns or block.iterations < 0 for block in self.blocks):
            return "a block ends before it begins, or counts backwards"
        if self.load is not None and (self.load.iterations < 0 or self.load.end_ns <= self.load.start_ns):
            return "the load window ends before it begins, or counts backwards"
        if self.load is not None and not (self.blocks and self.blocks[-1].end_ns <= self.load.end_ns):
            return "the load window ends before the measurement"
        if self.group < 1 or self.items_per_iteration < 0:
            return "an iteration covers nothing"
        if strangers := self._reported_devices() - {*self.cell.devices}:
            return f"{min(strangers)!r} is no device of its cell"
        return None

    @property
    def mismatches(self) -> int:
        """Number of wrong outputs (see Mismatch) that all processes of the launch found; 0 without verification."""
        found = (self.verification, *self.others.values())
        return sum(verification.mismatches for verification in found if verification is not None)

    def _reported_devices(self) -> set[str]:
        found = [self.verification, *self.others.values()]
        kept = [mismatch for verification in found if verification is not None for mismatch in verification.kept]
        senders = {mismatch.sender for mismatch in kept if mismatch.sender is not None}
        return senders | {*self.others}
