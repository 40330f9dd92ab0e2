"""Report types of operators: one row for each shape of an operator in an implementation and precision."""

import enum

from orchestrator.figures.parts import Part


class OperatorStatus(enum.StrEnum):
    """What is known of a shape. A wrong result has no speed."""

    OK = "ok"
    WRONG = "WRONG"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    MISSING = "not measured"


class Grade(enum.StrEnum):
    """Speed relative to the eager implementation of the same run."""

    EXCELLENT = "excellent"
    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"
    CRITICAL = "critical"


class OperatorRow(Part, frozen=True, kw_only=True):
    """One shape. Times in milliseconds, medians over calls, then over launches; null where the shape is not ok.

    sizes: its dimensions. deviation: the largest from the fp64 reference, relative. real_ms: a caller's view. pure_ms:
    time on the device. *_backward_ms: of forward and backward pass together. gb_per_second, tflops: of the forward
    pass, by pure_ms. memory_percent, compute_percent: their share of what hbm and gemm reached in this run.
    roof_percent: share of the roof that its operations per byte allow. eager_percent: speed relative to eager.
    graphed: whether pure times are without the host; null on a CPU device. advice: what to do about it, may be empty.
    """

    gpu_uuid: str
    operator: str
    category: str
    implementation: str
    precision: str
    shape: str
    sizes: str
    status: OperatorStatus
    reason: str
    deviation: float | None
    tolerance: float
    gradient_verified: bool
    real_ms: float | None = None
    pure_ms: float | None = None
    real_backward_ms: float | None = None
    pure_backward_ms: float | None = None
    graphed: bool | None = None
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


class OperatorsReport(Part, frozen=True, kw_only=True):
    """All rows, in the order of the plan."""

    rows: tuple[OperatorRow, ...]
