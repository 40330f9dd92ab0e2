"""Report types of a study: one row for each cell of its grid."""

from orchestrator.figures.operators import OperatorStatus
from orchestrator.figures.parts import Part


class StudyOperation(Part, frozen=True, kw_only=True):
    """An operation within one call: how often it ran, and its time without what it called."""

    name: str
    calls: int
    time_ms: float


class StudyRow(Part, frozen=True, kw_only=True):
    """One cell: an operation in an implementation, sizes and precision. Figures are null unless the status is ok.

    Times in milliseconds, medians over calls, then over launches. device_ms: calls back to back. host_ms: until a call
    returns. total_ms: until its work is done. compile_ms: of the first call, longest of all launches; null where
    nothing is compiled. peak_bytes: of a call; on a CPU device of its process. kernels: launched by a call; on a CPU
    device operators that call no other. operations: the longest ones. shape_ok, values_ok: of the output, compared with
    fp64; null where not compared. relative_speed: device time of the study's first implementation by this one's.
    graphed: whether device_ms is without the host; null on a CPU device.
    """

    gpu_uuid: str
    operation: str
    implementation: str
    sizes: dict[str, int]
    precision: str
    status: OperatorStatus
    reason: str
    shape_ok: bool | None = None
    values_ok: bool | None = None
    deviation: float | None = None
    tolerance: float
    device_ms: float | None = None
    host_ms: float | None = None
    total_ms: float | None = None
    compile_ms: float | None = None
    peak_bytes: int | None = None
    kernels: int | None = None
    operations: tuple[StudyOperation, ...] = ()
    graphed: bool | None = None
    relative_speed: float | None = None


class StudyReport(Part, frozen=True, kw_only=True):
    """A study. varied: the dimensions with several sizes. jax_version: as installed for the launches.

    rows: by grid point, in the order of the implementations.
    """

    name: str
    varied: tuple[str, ...]
    jax_version: str | None = None
    rows: tuple[StudyRow, ...]
