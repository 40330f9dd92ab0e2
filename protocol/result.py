"""Results of a worker: raw times and sizes. Statistics are derived in the parent."""

import enum
from functools import cached_property
from typing import Final

import msgspec

from protocol import floats
from protocol.cell import Cell
from protocol.errors import ProtocolError
from protocol.verification import Verification

COUNTED_WITHIN_MS: Final = 2_000.0
"""Longest iteration whose operations are counted: counting runs one more, at the speed of Python."""


class SteadyState(enum.StrEnum):
    """Whether warm-up ended because times had become steady. NOT_SOUGHT: it was one cold iteration."""

    REACHED = "reached"
    NONE = "none"
    FIXED = "fixed number of iterations"
    NOT_SOUGHT = "not looked for"


class StopReason(enum.StrEnum):
    """Why measuring ended."""

    TARGET = "interval target reached"
    TIME_CAP = "time cap"
    OUT_OF_REACH = "interval target out of reach"
    FIXED = "fixed number of iterations"


class SeriesName(enum.StrEnum):
    """A series of measured times.

    ITERATION: always. FORWARD, BACKWARD, OPTIMIZER: training; FORWARD, LATENCY (end to end, with its own number of
    values): inference. INSTANTIATE, WEIGHTS, TO_DEVICE: loading. FIRST_TOKEN, once an iteration, and INTER_TOKEN,
    new_tokens - 1 times: generation. BEST, COPY, TRIAD: probes. COPIES, TO_HOST, TO_DEVICE, ALL_REDUCE: links.
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
    """Iterations between two synchronisations, on the host's monotonic clock (nanoseconds)."""

    start_ns: int
    enqueued_ns: int
    end_ns: int
    iterations: int


class WarmUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts of the warm-up. Times in milliseconds, of the first two iterations alone."""

    steady_state: SteadyState
    iterations: int
    first_iteration_ms: float
    second_iteration_ms: float | None


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Peaks in bytes. On a CPU device allocated and reserved are None.

    model_bytes: parameters and buffers. cold: with the first iterations; warm: of the measured blocks alone.
    """

    model_bytes: int
    cold_allocated_bytes: int | None = None
    cold_reserved_bytes: int | None = None
    warm_allocated_bytes: int | None = None
    warm_reserved_bytes: int | None = None
    resident_bytes: int


class Ledger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time of a launch in milliseconds, by phase.

    start: from the parent's request to the worker's first line. load: the first load (load cells only). measure: all
    series, latencies included. count: counting operations and checking outputs.
    """

    start_ms: float
    import_ms: float
    context_ms: float
    build_ms: float
    load_ms: float
    warm_up_ms: float
    measure_ms: float
    count_ms: float = 0.0


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Software stack and state of the worker's process.

    threads: of torch. flags: switches of torch and of the process that change what is measured.
    """

    python: str
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    torchvision: str | None = None
    transformers: str | None = None
    threads: int
    collector_enabled: bool
    flags: dict[str, str] = {}
    isolation: str


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Everything that one launch measured.

    series: SeriesName → float32 milliseconds in measured order (protocol.floats). group: iterations that each value
    covers. launch_bound: the device waited for the host; None on CPU devices. flops_per_iteration: by torch's counter;
    None where it misses some. bytes_per_iteration: series → bytes, of probes. generated_tokens: read on the host, of
    all sequences and measured iterations. verification: of burn-in cells. others: of a gang's other processes, by
    device UUID.
    """

    cell: Cell
    parameters: int
    items_per_iteration: int
    ledger: Ledger
    warm_up: WarmUp
    stop_reason: StopReason
    blocks: tuple[Block, ...]
    series: dict[str, bytes]
    group: int = 1
    launch_bound: bool | None = None
    flops_per_iteration: float | None = None
    bytes_per_iteration: dict[str, int] = {}
    generated_tokens: int | None = None
    memory: Memory
    loss: float | None = None
    verification: Verification | None = None
    others: dict[str, Verification] = {}
    environment: Environment
    format: int = 1

    def times_ms(self, name: str) -> list[float]:
        """The series `name` in milliseconds an iteration, empty if it was not measured. Not to be changed."""
        return self._times_ms.get(name, [])

    @cached_property
    def _times_ms(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for name, data in self.series.items():
            try:
                found[name] = floats.unpack(data)
            except ProtocolError as error:
                raise ProtocolError(f"{name}: {error}") from error
        return found

    @property
    def flaw(self) -> str | None:
        """What makes this result impossible, as text; None where nothing does. The file may be another machine's."""
        try:
            unpacked = self._times_ms
        except ProtocolError as error:
            return str(error)
        for name, data in self.series.items():
            if floats.has_sign(data) and min(unpacked[name]) < 0:
                return f"{name}: a time is below zero"
        if any(block.end_ns < block.start_ns or block.iterations < 0 for block in self.blocks):
            return "a block ends before it begins, or counts backwards"
        if self.group < 1 or self.items_per_iteration < 0:
            return "an iteration covers nothing"
        if strangers := self._series_names() - {*self.cell.devices}:
            return f"{min(strangers)!r} is no device of its cell"
        return None

    def _series_names(self) -> set[str]:
        """Devices that it reports on, besides that of its process."""
        verified = [one for one in (self.verification, *self.others.values()) if one is not None]
        senders = {mismatch.sender for one in verified for mismatch in one.kept if mismatch.sender is not None}
        return senders | {*self.others}
