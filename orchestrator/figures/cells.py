"""Report types of one cell. report.py has the report as a whole.

CellReport   final state
└── Measured   every measurement
    ├── LoadMetrics
    ├── Computed   a model at work
    │   ├── PhaseMetrics   inference, training
    │   └── GenerationMetrics
    └── ProbeMetrics
"""

import enum
from typing import Annotated

import msgspec

from orchestrator.figures.parts import AttemptReport, LaunchLedger, Part, Plausibility, Statistics

BatchKey = Annotated[str, msgspec.Meta(pattern="^batch_size_[1-9][0-9]*$")]


class Status(enum.StrEnum):
    """Final state of a planned cell."""

    OK = "ok"
    DEGRADED = "degraded"
    REFERRED = "referred"
    DOES_NOT_FIT = "does_not_fit"
    FAILED = "failed"
    DROPPED = "dropped"
    MISSING = "missing"


class CellReport(Part, frozen=True, kw_only=True):
    """Final state of a planned cell.

    status: ok | degraded (measured at a smaller batch) | referred (to another planned cell, refers_to) | does_not_fit |
    failed | dropped | missing. reason: text, empty where all is well. launches: those the figures are medians of, one
    process each; launches_planned: how many there should be.
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


class Measured(CellReport, frozen=True, kw_only=True):
    """Figures of every measurement: those of a launch, then medians over the launches.

    steady_state: whether warm-up ended because times were steady; stop_reason: why measuring ended. measured_seconds:
    of a launch. relative_half_width: of the 95 % interval of the mean iteration. launch_spread_percent: between
    launches. drift_percent: second half of the times against the first; drifting: by more than 0.5 %. launch_bound: the
    GPU waited for the host. peak_memory_mb: allocated on a GPU, the resident set of the process on a CPU device
    (memory_basis says which). cold_*: from the first iteration to the end of warm-up; warm_*: over the measured blocks
    alone; the peak is the larger one. gpu_memory_used_mb: of the whole GPU, or MIG slice, as NVML counts it, context
    included. Utilisation, power and energy are of the measured blocks, null below 5 s of measuring; telemetry_note says
    why. sm_clock_drift_percent: mean SM clock of the second half of the measured time against the first.
    clock_event_reasons: why the clock was below its maximum, by NVML. power_capped_percent, slowdown_percent: share of
    the measured time in which clocks were limited by power, or by heat or a hardware brake; throttled: the latter for
    more than 1 %, in any launch; null where one was not watched. contaminated: another process computed on the GPU when
    the run began or during a launch, with --allow-busy. launch_values: figure of each launch that cells are compared
    by: samples a second, of generation tokens a second, of loading milliseconds, of probes TFLOP/s or GB/s.
    """

    steady_state: str | None
    stop_reason: str | None
    warm_up_iterations: int | None
    first_iteration_ms: float | None
    second_iteration_ms: float | None
    iterations: int | None
    measured_seconds: float | None
    relative_half_width: float | None
    launch_spread_percent: float | None
    launch_values: tuple[float, ...]
    drift_percent: float | None
    drifting: bool | None
    launch_bound: bool | None
    peak_memory_mb: float | None
    peak_memory_reserved_mb: float | None
    cold_memory_allocated_mb: float | None
    cold_memory_reserved_mb: float | None
    warm_memory_allocated_mb: float | None
    warm_memory_reserved_mb: float | None
    memory_basis: str | None
    gpu_memory_used_mb: float | None
    gpu_utilization_percent: float | None
    memory_utilization_percent: float | None
    power_draw_w: float | None
    energy_per_sample_j: float | None
    samples_per_sec_per_watt: float | None
    temperature_c: float | None
    temperature_max_c: float | None
    sm_clock_mhz: float | None
    sm_clock_drift_percent: float | None
    memory_clock_mhz: float | None
    clock_event_reasons: tuple[str, ...]
    power_capped_percent: float | None
    slowdown_percent: float | None
    throttled: bool | None
    contaminated: bool
    telemetry_note: str
    statistics: Statistics | None


class LoadMetrics(Measured, frozen=True, kw_only=True):
    """Loading a model: instantiate it, read its weights from a file, copy them to the device.

    model_load_time_ms: mean of the repetitions in a process that has loaded it before; instantiate, weights, to_device:
    its parts. cold_load_time_ms: first load of a fresh process. memory_allocated_mb: for the model.
    """

    model_load_time_ms: float | None
    cold_load_time_ms: float | None
    instantiate_time_ms: float | None
    weights_time_ms: float | None
    to_device_time_ms: float | None
    memory_allocated_mb: float | None


class Computed(Measured, frozen=True, kw_only=True):
    """A model at work: name of a sample, and whether its time is plausible."""

    sample_unit: str
    plausibility: Plausibility


class PhaseMetrics(Computed, frozen=True, kw_only=True):
    """Inference or training at one batch size.

    forward_time_ms: on the device, inputs already there. inference_latency_ms: end to end, from inputs to outputs in
    the host's memory, over inference_latency_values passes of their own. throughput_samples_per_sec: items over the
    whole time of the measured blocks, never a mean of rates.
    """

    forward_time_ms: float | None
    backward_time_ms: float | None
    optimize_step_time_ms: float | None
    total_iteration_time_ms: float | None
    inference_latency_ms: float | None
    inference_latency_values: int | None
    throughput_samples_per_sec: float | None
    loss: float | None


class GenerationMetrics(Computed, frozen=True, kw_only=True):
    """Writing text with a KV cache, greedily, at one batch size. A sample is a sequence.

    generation_time_ms: end to end, all new_tokens. time_to_first_token_ms: the prompt, and the first token read back.
    time_per_output_token_ms: (generation_time_ms - time_to_first_token_ms) / (new_tokens - 1). inter_token_*: between
    tokens on the host, without the first; over all launches. tokens_per_second: tokens on the host, of all sequences,
    over the whole measured time. tokens_generated of tokens_expected: counted on the host; tokens_complete: they agree.
    """

    prompt_tokens: int | None
    new_tokens: int | None
    generation_time_ms: float | None
    time_to_first_token_ms: float | None
    time_per_output_token_ms: float | None
    inter_token_mean_ms: float | None
    inter_token_p50_ms: float | None
    inter_token_p95_ms: float | None
    inter_token_p99_ms: float | None
    tokens_per_second: float | None
    tokens_generated: int | None
    tokens_expected: int | None
    tokens_complete: bool | None
    energy_per_token_j: float | None


class ProbeMetrics(Measured, frozen=True, kw_only=True):
    """What a GPU reaches without a model. One TFLOP/s is 1e12 operations, one GB/s 1e9 bytes a second.

    name: gemm (matrix products), hbm (the device's memory), h2d, d2h (between host and device).
    best_tflops: the quickest seen; sustained_tflops: of the best shape, over the measured time.
    copy, triad: of the device's memory, bytes read and written together; transfer: of what was carried over.
    """

    gpu_uuid: str
    gpu_id: int
    name: str
    title: str
    precision: str
    mode: str
    total_iteration_time_ms: float | None
    best_tflops: float | None
    sustained_tflops: float | None
    copy_gb_per_sec: float | None
    triad_gb_per_sec: float | None
    transfer_gb_per_sec: float | None


class BatchPoint(Part, frozen=True, kw_only=True):
    """One batch size of a scan. works: it ran; why_not: the category of failure otherwise.

    launches: that its figures are of, 1 or none; other fields as in Measured.
    """

    batch_size: int
    launch: int
    works: bool
    why_not: str
    throughput_samples_per_sec: float | None
    peak_memory_mb: float | None
    launches: int
    steady_state: str | None
    stop_reason: str | None
    relative_half_width: float | None
    drift_percent: float | None
    drifting: bool | None


class BatchScan(Part, frozen=True, kw_only=True):
    """Batch sizes that `-b auto` tried for one cell, smallest first: throughput and memory over the batch.

    largest_batch_size: known to one part in 32; bounded_by: what limits it. best_batch_size: of the highest throughput;
    its other figures are among those of the model. peak_memory_mb: allocated on a GPU, the resident set of the process
    on a CPU device. finished: false where the run ended before the scan did; reason says why.
    """

    cell: str
    status: Status
    reason: str
    finished: bool
    gpu_uuid: str
    gpu_id: int
    model_name: str
    model_type: str
    workload: str
    precision: str
    mode: str
    input_size: int | None
    memory_format: str
    new_tokens: int | None
    sample_unit: str
    largest_batch_size: int | None
    bounded_by: str
    best_batch_size: int | None
    points: tuple[BatchPoint, ...]


class ModelResult(Part, frozen=True, kw_only=True):
    """Metrics of one (GPU, model, precision, mode, input size, memory format, new tokens).

    Metrics are keyed by the batch size that was requested, or that a scan found best. new_tokens: of generation, whose
    input_size is the prompt. statistics: of the largest batch with figures, of inference before training; statistics_of
    says which.
    """

    gpu_uuid: str
    gpu_id: int
    model_name: str
    model_title: str
    model_type: str
    parameters_count: int | None
    precision: str
    mode: str
    compile_mode: str
    input_size: int | None
    memory_format: str
    new_tokens: int | None
    load_metrics: LoadMetrics | None
    inference_metrics: dict[BatchKey, PhaseMetrics]
    training_metrics: dict[BatchKey, PhaseMetrics]
    generation_metrics: dict[BatchKey, GenerationMetrics]
    statistics: Statistics | None
    statistics_of: str | None
