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

RESIDENT = "resident set"
"""Value of memory_basis on a CPU device, whose memory figures are the process's resident set."""
BatchKey = Annotated[str, msgspec.Meta(pattern="^batch_size_[1-9][0-9]*$")]


class Status(enum.StrEnum):
    """Final state of a planned cell. analysis/outcomes.py decides it.

    DEGRADED: the requested batch size ran out of memory, and a smaller one was measured. REFERRED: the same, but the
    smaller one belongs to another planned cell, which has the figures. UNSUPPORTED: the cell needs something that this
    machine lacks. DROPPED: a time limit left no time for it. MISSING: it has no result, for another reason.
    """

    OK = "ok"
    DEGRADED = "degraded"
    REFERRED = "referred"
    DOES_NOT_FIT = "does_not_fit"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    DROPPED = "dropped"
    MISSING = "missing"


class CellReport(Part, frozen=True, kw_only=True):
    """Final state of a planned cell.

    degraded: the status is degraded or referred. refers_to: id of the planned cell that has the figures, if status is
    referred. reason: empty if ok. batch_size_requested: for `-b auto`, the size that the scan found. batch_size: that
    of the figures or, if referred, of the cell refers_to; else null. launches: number of launches with a valid result;
    the figures are over them. attempts: all launches made. ledger: time of a launch by phase; null without a valid
    result.
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
    """Figures of any measurement: medians over the valid launches of the cell, except the following.

    Sums over the launches: iterations, warm_up_iterations. Largest value of a launch: memory (MB of 2**20 bytes),
    temperature_max_c, host_percent, power_capped_percent, slowdown_percent; the largest in size: drift_percent,
    unsettled_percent, sm_clock_drift_percent. drifting, launch_bound, throttled: true if any launch was.

    steady_state: how warm-up ended. first_iteration_ms, second_iteration_ms: of the warm-up. stop_reason: why measuring
    ended. measured_seconds: time for which a launch measured. relative_half_width: half of the 95 % interval of a
    launch's mean iteration, as a share of the mean. launch_values: the figure that cells are compared by, for each
    launch: samples/s, tokens/s, ms of loading, TFLOP/s or GB/s of probes. launch_spread_percent: (largest - smallest) /
    median of the launches' throughput. launch_interval_percent: half of the 95 % interval of the geometric mean of
    launch_values, in percent of it; null below three launches. drift_percent: change of the times from the first half
    to the second; drifting: whether it exceeds 0.5 %. unsettled_percent: lasting change of the times from the end of
    warm-up to the end of the measurement; null if no change is certain, else steady_state is "none". host_percent:
    share of an iteration that the host needs to enqueue it. launch_bound: whether the GPU waited for the host, or
    nearly so: host_percent is 80 or more, and the rest of an iteration is below 50 ms.

    peak_memory_mb: allocated on a GPU, resident set on a CPU device (memory_basis says which). cold_memory_*: peak from
    the first iteration to the end of warm-up; warm_memory_*: peak over the measured blocks. gpu_memory_used_mb: memory
    in use on the whole GPU or MIG slice, as NVML reports it. That includes CUDA contexts. Utilisation, power and energy
    are read over the load window (measured blocks and untimed iterations after them) in a launch that has one: the
    first at the largest batch. In other launches, they are read over the measured blocks, and are null if these take
    less than 5 s (telemetry_note). host_cpu_percent: processor time that the launch used; 100 is one full core.
    host_memory_mb: peak resident set. sm_clock_drift_percent: change of the SM clock from the first half of the
    measured time to the second. clock_event_reasons: why NVML reports a lower clock. power_capped_percent,
    slowdown_percent: share of the measured time with clocks limited by power, or by heat or a hardware brake.
    throttled: whether slowdown_percent exceeds 1 in any launch; null if it does in none, but is unknown in one.
    contaminated: whether another process computed on the GPU when the run began or during a launch (--allow-busy).
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
    host_percent: float | None = None
    unsettled_percent: float | None = None
    launch_interval_percent: float | None = None
    host_cpu_percent: float | None = None
    host_memory_mb: float | None = None

    @property
    def wrong(self) -> str:
        """Description of wrong outputs. Always "" here, because only PhaseMetrics of compiled models have any."""
        return ""


class LoadMetrics(Measured, frozen=True, kw_only=True):
    """Loading a model: instantiate it, read its weights from a file, copy them to the device.

    model_load_time_ms: mean of repeated loads in one process. instantiate_time_ms, weights_time_ms, to_device_time_ms:
    its three steps. cold_load_time_ms: first load of a fresh process. memory_allocated_mb: memory of the loaded model.
    """

    model_load_time_ms: float | None
    cold_load_time_ms: float | None
    instantiate_time_ms: float | None
    weights_time_ms: float | None
    to_device_time_ms: float | None
    memory_allocated_mb: float | None


class Computed(Measured, frozen=True, kw_only=True):
    """Figures of a model at work. sample_unit: what throughput counts, such as "images".

    plausibility: the time compared with the limits of the device. energy_per_token_j: energy per generated token; for
    inference and training per input token.
    """

    sample_unit: str
    plausibility: Plausibility
    energy_per_token_j: float | None = None


class ShapeTimes(Part, frozen=True, kw_only=True):
    """Times of calls with inputs of one size: first call, and median of later calls (null: none)."""

    input_size: int
    first_call_ms: float
    later_call_ms: float | None


class ShapeFigures(Part, frozen=True, kw_only=True):
    """Figures of a compiled model whose input size changes from call to call.

    way: static (compiled for each size), dynamic (compiled for any size) or padded (as static, after each size was
    padded to a multiple of a fixed number). error: why there are no figures. limited: whether torch reached its limit
    of compiled forms. Then some calls may have run eager. cache_hits: calls that compiled nothing; null if `limited`,
    or without calls. reasons: why torch compiled again, "file:line: reason", each once. total_ms: time of all calls.
    padding: number of elements of the padded inputs divided by that of the real ones. padding_time: sum of
    later_call_ms over the sizes, divided by the same sum for the way static. padding and padding_time are null for
    static and dynamic.
    """

    way: str
    error: str
    calls: int
    cache_hits: int | None
    recompilations: int
    reasons: tuple[str, ...]
    limited: bool
    total_ms: float | None
    padding: float | None
    padding_time: float | None
    sizes: tuple[ShapeTimes, ...]


class CompilationFigures(Part, frozen=True, kw_only=True):
    """Figures of torch.compile in one cell, and its comparison with the same cell in eager mode.

    own: whether the model's code calls torch.compile itself. Then there is no eager cell to compare with. cold_*: of
    the first launch, with empty caches. cached_*: medians of later launches, which find filled caches. compile_ms:
    TorchDynamo and its backend; first_call_ms: time of the first iteration, including its compilation. graph_breaks,
    recompilations: "file:line: reason", each once. absolute_error, relative_error, cosine_distance: deviation of the
    outputs from those of eager (protocol.result.Compilation), largest of all launches; within_tolerance: whether
    relative_error is within the tolerance of the precision. speed_up: eager time over compiled time of an iteration,
    with its 95 % interval. memory_of_eager: peak memory divided by that of eager. pays_after_iterations: iterations
    until a cold compilation has paid off; null where it never does. speed_up*, memory_of_eager and
    pays_after_iterations are null if the outputs are beyond the tolerance, or if the eager cell has no time at the same
    batch size. shapes: figures of the first launch with changing input sizes (--compile-shapes), one for each way to
    compile (ShapeWay).
    """

    own: bool
    cold_compile_ms: float | None
    cached_compile_ms: float | None
    cold_first_call_ms: float | None
    cached_first_call_ms: float | None
    graphs: int
    graph_breaks: tuple[str, ...]
    recompilations: tuple[str, ...]
    absolute_error: float | None
    relative_error: float | None
    cosine_distance: float | None
    within_tolerance: bool | None
    speed_up: float | None = None
    speed_up_low: float | None = None
    speed_up_high: float | None = None
    memory_of_eager: float | None = None
    pays_after_iterations: int | None = None
    shapes: tuple[ShapeFigures, ...] = ()


class PhaseMetrics(Computed, frozen=True, kw_only=True):
    """Inference or training at one batch size.

    forward_time_ms: time on the device, with the inputs already there. inference_latency_ms: time from inputs to
    outputs in host memory, mean of separate passes. inference_latency_values: number of these passes in all launches.
    The percentiles are over all of them, p95 null below 20 values, p99 below 300. throughput_samples_per_sec: items
    divided by the total time of the measured blocks. loss: of the last training step of the first launch; null for
    inference.
    """

    forward_time_ms: float | None
    backward_time_ms: float | None
    optimize_step_time_ms: float | None
    total_iteration_time_ms: float | None
    inference_latency_ms: float | None
    inference_latency_values: int | None
    throughput_samples_per_sec: float | None
    loss: float | None
    inference_latency_p50_ms: float | None = None
    inference_latency_p95_ms: float | None = None
    inference_latency_p99_ms: float | None = None
    compilation: CompilationFigures | None = None

    @property
    def wrong(self) -> str:
        """Deviation of the compiled model's outputs, in words; "" if it is within the tolerance."""
        found = self.compilation
        if found is None or found.within_tolerance is not False:
            return ""
        return f"compiled outputs differ from eager ones by {found.relative_error:.0e}"


class GenerationMetrics(Computed, frozen=True, kw_only=True):
    """Greedy generation of text with a KV cache at one batch size. A sample is a sequence.

    generation_time_ms: time of a whole text of new_tokens. time_to_first_token_ms: time until the host has read the
    first token. time_per_output_token_ms: (generation_time_ms - time_to_first_token_ms) / (new_tokens - 1).
    inter_token_*: times between tokens on the host, from the first token on; percentiles over all launches together.
    tokens_per_second: of all sequences, over the whole measured time. tokens_generated, tokens_expected: sums over the
    launches; tokens_complete: the first, counted on the host, equals the second.
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


class ProbeMetrics(Measured, frozen=True, kw_only=True):
    """Performance of a device without a model. 1 TFLOP/s is 1e12 operations/s; GB of 1e9 bytes.

    name: gemm (matrix products), hbm (device memory), h2d, d2h (between host and device). best_tflops: rate of the
    fastest burst; sustained_tflops: rate of the best shape over the measured time. copy, triad: rates of hbm that count
    bytes read and bytes written. transfer: rate of h2d or d2h. mode: "solo" (other GPUs idle) or "loaded" (all at
    work).
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
    """One batch size that `-b auto` tried in one launch.

    launch: its number in the run. works: whether it has a result. launches: 1 if it works, else 0. why_not: category of
    its failure, else empty. steady_state: how warm-up ended. stop_reason: why measuring ended. relative_half_width:
    half of the 95 % interval of the mean iteration, as a share of the mean. drift_percent: change of the times from the
    first half to the second, in percent. drifting: whether it exceeds 0.5 %.
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
    """Batch sizes that `-b auto` tried for one cell, smallest first.

    largest_batch_size: largest size that works. bounded_by: what prevents a larger one: "memory" or "failure:
    <category>" (a size larger by at most 1/32, or by 1, has failed), else a limit in words; "" if unknown.
    best_batch_size: size with the highest throughput. Its figures are in the metrics of the model. sample_unit: what
    throughput counts, such as "images". points: their peak_memory_mb is memory allocated in the warm-up on a GPU, and
    the resident set on a CPU device. finished: false if the scan has not ended, as in an interrupted run.
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
    """Metrics of one (GPU, model, precision, mode, compile mode, input size, memory format, new tokens).

    Metrics have the requested batch size as key, or the best one of a scan. input_size: for generation, length of the
    prompt. statistics: distribution of the times at the largest batch size that has figures, in inference, else in
    training, else in generation. statistics_of: workload and batch size of these times, "inference batch_size_8".
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
