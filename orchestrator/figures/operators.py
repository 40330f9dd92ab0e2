"""Report types of operators: one row for each operator, shape, implementation and precision."""

import enum
from typing import Final

import msgspec

from orchestrator.figures.cells import CompilationFigures, Status
from orchestrator.figures.parts import Part, Statistics


class OperatorStatus(enum.StrEnum):
    """State of an operator at one shape.

    WRONG: the output deviates too much, so it has no times. UNSUPPORTED: impossible here, or does not fit in memory.
    """

    OK = "ok"
    WRONG = "WRONG"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    MISSING = "not measured"


class Grade(enum.StrEnum):
    """Grade of a speed relative to eager in the same run. kinds/ops/analysis.py has the limits."""

    EXCELLENT = "excellent"
    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"
    CRITICAL = "critical"


class TimeName(enum.StrEnum):
    """Times of an operator's call. PURE: on the device. REAL: with the work of the host.

    *_BACKWARD: time of the forward and the backward pass together.
    """

    PURE = "pure"
    REAL = "real"
    PURE_BACKWARD = "pure_backward"
    REAL_BACKWARD = "real_backward"


_WITH_HOST: Final = frozenset({TimeName.REAL, TimeName.REAL_BACKWARD})
CELL_STATUS: Final = {
    OperatorStatus.OK: Status.OK,
    OperatorStatus.WRONG: Status.FAILED,
    OperatorStatus.FAILED: Status.FAILED,
    OperatorStatus.UNSUPPORTED: Status.FAILED,
    OperatorStatus.MISSING: Status.MISSING,
}
"""Status of an operator's row → status of a cell, used by comparisons and thresholds."""


class IntervalOver(enum.StrEnum):
    """Values that give the 95 % interval of a time: times of the launches, or of a launch's calls."""

    LAUNCHES = "launches"
    CALLS = "calls of a launch"


class OperatorTime(Part, frozen=True, kw_only=True):
    """One of the times of an operator at one shape. call_ms: time of a call, median over calls, then over launches.

    launch_values: time of each launch in ms. interval_percent: half of a 95 % interval, in percent. With three launches
    or more, it is the interval of the mean of launch_values. With fewer, it is the interval of a launch's mean call
    (the median over the launches), and null below 20 calls. interval_over: which of the two.
    """

    call_ms: float
    launch_values: tuple[float, ...]
    interval_percent: float | None
    interval_over: IntervalOver


class OperatorRow(Part, frozen=True, kw_only=True):
    """An operator at one shape. times: in milliseconds, by name; empty unless the status is ok.

    Backward times are missing if the operator has no gradient. category: kind of operator, such as "matrix". reason:
    why the status is not ok. mode: solo (other devices idle) or loaded. shape: its name, such as "small". sizes: its
    dimensions. deviation, tolerance: largest relative deviation from the fp64 reference, and the permitted one.
    gradient_verified: whether every launch verified the gradient; False if there is none. intensity: floating-point
    operations per byte moved. gb_per_second, tflops: rates of the forward pass, by its time without host work ("pure").
    memory_percent, compute_percent: these rates in percent of those of the probes in this run. roof_percent: the larger
    of both (roofline). eager_percent, eager_backward_percent: speed of the forward pass, and of both passes, in percent
    of that of the eager implementation, by pure times; null in rows of eager. grade: in words, how good eager_percent
    is; null without it. graphed: whether pure times come from a CUDA graph, which has no host work; null on a CPU
    device. host_bound: whether the host mostly decides the pure time of the forward pass. throttled: whether the GPU
    was slowed down in a launch; null if unknown. contaminated: whether another process used the device when the run
    began or during a launch. advice: what to do about the row, or "".
    """

    cell: str
    gpu_uuid: str
    operator: str
    category: str
    implementation: str
    precision: str
    mode: str
    shape: str
    sizes: str
    status: OperatorStatus
    reason: str
    deviation: float | None
    tolerance: float
    gradient_verified: bool
    times: dict[TimeName, OperatorTime] = msgspec.field(default_factory=dict)
    graphed: bool | None = None
    host_bound: bool | None = None
    throttled: bool | None = None
    contaminated: bool = False
    intensity: float = 0.0
    gb_per_second: float | None = None
    tflops: float | None = None
    memory_percent: float | None = None
    compute_percent: float | None = None
    roof_percent: float | None = None
    eager_percent: float | None = None
    eager_backward_percent: float | None = None
    grade: Grade | None = None
    advice: str = ""

    def ms(self, name: TimeName) -> float | None:
        """Return the time `name` of a call in milliseconds; None if it was not measured."""
        return self.times[name].call_ms if name in self.times else None

    def metric(self, name: TimeName) -> "OperatorMetric":
        """Return the time `name` of the row as a measurement; without this time, call_ms is None, launch_values ()."""
        time = self.times.get(name)
        return OperatorMetric(
            cell=self.cell,
            status=CELL_STATUS[self.status],
            reason=self.reason,
            wrong=self.reason if self.status is OperatorStatus.WRONG else "",
            launch_values=time.launch_values if time else (),
            throttled=self.throttled,
            contaminated=self.contaminated,
            launch_bound=True if name in _WITH_HOST else False if self.graphed else None,
            call_ms=time.call_ms if time else None,
            interval_percent=time.interval_percent if time else None,
        )


class OperatorMetric(Part, frozen=True, kw_only=True):
    """One of the times of an operator or study row, in the form that comparisons and thresholds read.

    The fields from batch_size to telemetry_note exist because models have them (Measured in figures/cells.py). They
    keep their defaults, except peak_memory_mb and compile_cold_ms in a study. wrong: how the output differs from the
    fp64 reference; "" if it is right. call_ms: time of a call, median over calls, then over launches; null without a
    result. launch_values: this time of each launch. cell: its name. interval_percent: half of the 95 % interval of
    call_ms, in percent; null if unknown. launch_bound: whether work of the host decides the time; null if unknown.
    throttled: whether the GPU was slowed down in a launch; null if unknown. contaminated: whether another process used
    the device. compile_cold_ms: compile time of the first call, longest of all launches.
    """

    cell: str
    status: Status
    reason: str
    wrong: str
    launch_values: tuple[float, ...]
    throttled: bool | None
    contaminated: bool
    launch_bound: bool | None
    call_ms: float | None
    interval_percent: float | None
    batch_size: int = 1
    degraded: bool = False
    steady_state: str | None = None
    power_capped_percent: float | None = None
    peak_memory_mb: float | None = None
    statistics: Statistics | None = None
    compilation: CompilationFigures | None = None
    compile_cold_ms: float | None = None
    telemetry_note: str = ""


class OperatorsReport(Part, frozen=True, kw_only=True):
    """Results of all operators. rows: in the order of the plan."""

    rows: tuple[OperatorRow, ...]
