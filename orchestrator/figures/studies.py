"""Report types of a study: one row for each cell of its grid."""

from typing import Final

from orchestrator.figures.operators import CELL_STATUS, OperatorMetric, OperatorStatus
from orchestrator.figures.parts import Part

_MIB: Final = 2**20


class StudyOperation(Part, frozen=True, kw_only=True):
    """A kernel (CPU device: operator) in a profiled call. time_ms: sum over its `calls`, without nested operators."""

    name: str
    calls: int
    time_ms: float


class StudyRow(Part, frozen=True, kw_only=True):
    """One cell: an operation in one implementation, with sizes and precision. Times are null unless the status is ok.

    compile_mode: mode of torch.compile, "eager", or "jax". Times in milliseconds, medians over calls, then over
    launches. device_ms: time of a call when calls run back to back. launch_values: device_ms of each launch.
    interval_percent: half of a 95 % interval of device_ms, in percent; null if there are too few calls. host_ms: time
    until a call returns. total_ms: time until its work is done. compile_ms: compile time of the first call, longest of
    all launches; null where nothing is compiled. peak_bytes: peak memory of a call; on a CPU device, of its process.
    kernels: number of kernels that a call launches; on a CPU device, of operators that call no other operator.
    operations: the slowest ones. shape_ok, values_ok: whether the output agrees with fp64; null where not compared.
    deviation, tolerance: largest and allowed relative deviation from fp64. graphed: whether device_ms comes from a CUDA
    graph, which has no host work; null on a CPU device. host_bound: whether the host mostly decides device_ms; null on
    a CPU device. throttled: whether the GPU was slowed down in a launch; null if unknown. contaminated: whether another
    process used the device when the run began or during a launch. relative_speed: device time of the study's first
    implementation divided by device_ms.
    """

    cell: str
    gpu_uuid: str
    operation: str
    implementation: str
    sizes: dict[str, int]
    precision: str
    mode: str
    compile_mode: str
    status: OperatorStatus
    reason: str
    shape_ok: bool | None = None
    values_ok: bool | None = None
    deviation: float | None = None
    tolerance: float
    device_ms: float | None = None
    launch_values: tuple[float, ...] = ()
    interval_percent: float | None = None
    host_ms: float | None = None
    total_ms: float | None = None
    compile_ms: float | None = None
    peak_bytes: int | None = None
    kernels: int | None = None
    operations: tuple[StudyOperation, ...] = ()
    graphed: bool | None = None
    host_bound: bool | None = None
    throttled: bool | None = None
    contaminated: bool = False
    relative_speed: float | None = None

    @property
    def metric(self) -> OperatorMetric:
        """The row as one time of an operator: device time, peak memory and compile time. Missing figures are None."""
        return OperatorMetric(
            cell=self.cell,
            status=CELL_STATUS[self.status],
            reason=self.reason,
            wrong=self.reason if self.status is OperatorStatus.WRONG else "",
            launch_values=self.launch_values,
            throttled=self.throttled,
            contaminated=self.contaminated,
            launch_bound=self.host_bound,
            call_ms=self.device_ms,
            interval_percent=self.interval_percent,
            peak_memory_mb=None if self.peak_bytes is None else self.peak_bytes / _MIB,
            compile_cold_ms=self.compile_ms,
        )


class StudyReport(Part, frozen=True, kw_only=True):
    """Results of a study. varied: names of the dimensions with several sizes. jax_version: null without JAX.

    rows: ordered by grid point, then by implementation.
    """

    name: str
    varied: tuple[str, ...]
    jax_version: str | None = None
    rows: tuple[StudyRow, ...]
