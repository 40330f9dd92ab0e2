"""What the report says about one cell: metrics, attempts, statistics. model.py has the report as a whole."""

from typing import Annotated

import msgspec

from orchestrator.outcomes import Status

BatchKey = Annotated[str, msgspec.Meta(pattern="^batch_size_[1-9][0-9]*$")]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the report."""


class Statistics(_Part, frozen=True, kw_only=True):
    """Shape of the measured times. All launches are thrown together here: for the eye, nothing is concluded from it.

    forward_time_*: of the forward pass; iteration_time_*: of the whole step, and of the whole load for load_metrics.
    values: how many times there are; each covers values_cover iterations (very short ones are timed several at once).
    p95 is null below 20 values, p99 below 300. outliers: more than three interquartile ranges outside the quartiles;
    none is removed.
    """

    pooled_launches: int
    values: int
    values_cover: int
    outliers: int
    forward_time_mean_ms: float | None
    forward_time_std_ms: float | None
    forward_time_min_ms: float | None
    forward_time_max_ms: float | None
    forward_time_p50_ms: float | None
    forward_time_p95_ms: float | None
    forward_time_p99_ms: float | None
    iteration_time_mean_ms: float | None
    iteration_time_std_ms: float | None
    iteration_time_min_ms: float | None
    iteration_time_max_ms: float | None
    iteration_time_p50_ms: float | None
    iteration_time_p95_ms: float | None
    iteration_time_p99_ms: float | None


class LaunchLedger(_Part, frozen=True, kw_only=True):
    """Where the time of a launch went, medians over the launches of the cell, in milliseconds.

    start: from the request to the first line of the process. teardown: from the outcome to the device free again.
    overhead: all but load, warm-up and measuring, so start, import, context, build and teardown.
    """

    start_ms: float
    import_ms: float
    context_ms: float
    build_ms: float
    load_ms: float
    warm_up_ms: float
    measure_ms: float
    teardown_ms: float | None
    overhead_ms: float


class AttemptReport(_Part, frozen=True, kw_only=True):
    """One try at a cell, in a process of its own. outcome: result | failure | damaged | interrupted.

    damaged: a result whose file is not what the journal promised. interrupted: nobody wrote how it ended.
    folder: where its log files are, within the run's folder. exit_code, signal: how the process left.
    """

    launch: int
    attempt: int
    round: int
    batch_size: int
    outcome: str
    started: str
    duration_ms: float | None
    category: str | None
    message: str | None
    phase: str | None
    code: int | None
    failure_signal: int | None
    exception: str | None
    evidence: dict[str, str]
    exit_code: int | None
    signal: int | None
    folder: str


class _CellReport(_Part, frozen=True, kw_only=True):
    """What became of a planned cell.

    status: ok | degraded (measured at a smaller batch) | referred (another planned cell, refers_to, stands for it) |
    does_not_fit | failed | missing. reason: in words, empty where all is well.
    launches: those the figures are medians of, one process each; launches_planned: how many there should be.
    """

    cell: str
    status: Status
    reason: str
    batch_size_requested: int
    batch_size: int | None
    degraded: bool
    refers_to: str | None
    launches: int
    launches_planned: int
    attempts: tuple[AttemptReport, ...]
    ledger: LaunchLedger | None


class LoadMetrics(_CellReport, frozen=True, kw_only=True):
    """Loading a model: instantiate it, read its weights from a file, bring them to the device."""

    model_load_time_ms: float | None
    instantiate_time_ms: float | None
    weights_time_ms: float | None
    to_device_time_ms: float | None
    memory_allocated_mb: float | None
    statistics: Statistics | None


class PhaseMetrics(_CellReport, frozen=True, kw_only=True):
    """Inference or training at one batch size. Times are means of a launch, then medians over the launches.

    throughput_samples_per_sec: items over the whole time of the measured blocks, never a mean of rates.
    peak_memory_mb: allocated on a GPU, the resident set of the process on a CPU device (memory_basis says which).
    steady_memory_mb: the same peak over the measured blocks alone. Utilisation, power and energy are null below 5 s of
    measuring. clock_event_reasons: why the clock was below its maximum, as NVML gives it.
    relative_half_width: of the 95 % interval of the mean iteration. launch_spread_percent: between launches.
    launch_bound: the GPU waited for the host. throttled: thermal slowdown for more than 1 % of the time.
    contaminated: another process computed on the GPU when the run began, and --allow-busy was given.
    drift_percent: second half of the times against the first; drifting: by more than 0.5 %.
    """

    forward_time_ms: float | None
    backward_time_ms: float | None
    optimize_step_time_ms: float | None
    total_iteration_time_ms: float | None
    throughput_samples_per_sec: float | None
    sample_unit: str
    peak_memory_mb: float | None
    peak_memory_reserved_mb: float | None
    steady_memory_mb: float | None
    memory_basis: str | None
    gpu_utilization_percent: float | None
    memory_utilization_percent: float | None
    power_draw_w: float | None
    energy_per_sample_j: float | None
    temperature_c: float | None
    temperature_max_c: float | None
    sm_clock_mhz: float | None
    clock_event_reasons: tuple[str, ...]
    throttled: bool | None
    contaminated: bool
    telemetry_note: str
    steady_state: str | None
    stop_reason: str | None
    warm_up_iterations: int | None
    first_iteration_ms: float | None
    second_iteration_ms: float | None
    iterations: int | None
    relative_half_width: float | None
    launch_spread_percent: float | None
    launch_bound: bool | None
    drift_percent: float | None
    drifting: bool | None
    loss: float | None
    statistics: Statistics | None


class ModelResult(_Part, frozen=True, kw_only=True):
    """One (GPU, model, precision, mode, input size). Metrics are keyed by the batch size that was requested.

    statistics: of the largest batch with figures, of inference before training; statistics_of says which.
    """

    gpu_uuid: str
    gpu_id: int
    model_name: str
    model_title: str
    model_type: str
    parameters_count: int
    precision: str
    mode: str
    compile_mode: str
    input_size: int | None
    load_metrics: LoadMetrics | None
    inference_metrics: dict[BatchKey, PhaseMetrics]
    training_metrics: dict[BatchKey, PhaseMetrics]
    statistics: Statistics | None
    statistics_of: str | None
