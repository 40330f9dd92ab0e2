"""Types of the merged report, from which configs/report.schema.json is made.

Report ── metadata, gpu_info (a list), test_configuration
       ── results ── one ModelResult for each (GPU, model, precision, mode, compile mode, input size, …)
           │               load_metrics, {inference,training,generation}_metrics: by the batch size that was requested
       ── probes, cells (every planned one), excluded (not applicable to a device)
       ── cross_gpu, stragglers, full_node
       ── summary, overhead, failures, verdict, health
       ── baseline_comparison, thresholds, costs
"""

from collections.abc import Sequence
from typing import Final

from orchestrator.figures.burn_in import BurnInReport
from orchestrator.figures.cells import BatchScan, ModelResult, ProbeMetrics, Status
from orchestrator.figures.comparisons import BaselineComparison, Cost, FullNode, Spread, Standing, ThresholdResult
from orchestrator.figures.exit_code import RunVerdict
from orchestrator.figures.health import HealthReport
from orchestrator.figures.operators import OperatorsReport
from orchestrator.figures.parts import Part, SettingReport
from orchestrator.figures.quality import Quality
from orchestrator.figures.studies import StudyReport

SCHEMA_VERSION: Final = 6


class SegmentReport(Part, frozen=True, kw_only=True):
    """Session of a run: the work of one orchestrator process. started: ISO 8601, UTC.

    duration_seconds: from its start to its end. If no end was recorded, to the last start or end of a launch. launches:
    number of launches that it started. boot_id: the kernel's id of the boot, or "". suspended_seconds: length of each
    suspension of the process.
    """

    started: str
    duration_seconds: float
    driver_version: str | None
    boot_id: str
    tool_version: str
    launches: int
    suspended_seconds: tuple[float, ...] = ()


class Metadata(Part, frozen=True, kw_only=True):
    """What was run, where, when, and with which software, as the workers reported it.

    *_version: null if unknown. cuda_version: version that torch was built for. finished: false while running, or if
    interrupted or killed. running: still running when the report was made. test_date: start of the run, ISO 8601, UTC.
    test_duration_seconds: sum over the sessions (segments). zygote_start_ms: duration of each start of the zygote;
    empty with --isolation exec. command: command line. Of a command in --on-finish or --on-failure, it has only the
    program, because arguments may be secret. telemetry_note: why telemetry is missing or limited, or "". settings:
    environment variables that change what is measured.
    """

    tool_version: str
    pytorch_version: str | None
    cuda_version: str | None
    cudnn_version: str | None
    torchvision_version: str | None
    transformers_version: str | None
    python_version: str | None
    driver_version: str | None
    test_date: str
    hostname: str
    test_duration_seconds: float
    run_id: str
    command: tuple[str, ...]
    finished: bool
    interrupted: bool
    running: bool
    segments: tuple[SegmentReport, ...]
    zygote_start_ms: tuple[float, ...]
    telemetry_note: str
    settings: tuple[SettingReport, ...]

    @property
    def suspended(self) -> str:
        """How often and how long the orchestrator was suspended, in words; empty if it never was."""
        times_s = [seconds for segment in self.segments for seconds in segment.suspended_seconds]
        return pauses_in_words(times_s) if times_s else ""


class GpuInfo(Part, frozen=True, kw_only=True):
    """One device of the run, as found before the first cell.

    gpu_id: index that --gpu-ids takes. kind: cuda, or cpu (a part of the CPU cores). shared_cores: another CPU device
    of the run uses the same cores. slice_of: UUID of the GPU to which a MIG slice belongs. Power, temperature, clocks
    and utilisation of a slice are those of this GPU. slice_index: index of a MIG slice in its GPU: 1 in "GPU 0:1". It
    is null for a whole GPU, and for a slice with a gpu_id of its own (named in CUDA_VISIBLE_DEVICES). shared_gpu:
    another slice of that GPU is in the run. busy_with: another process that computed on the device when the run began.
    cuda_version: newest one that the driver supports. pcie_generation: highest one that GPU and host support.
    pcie_width: lanes in use. quarantined: the reason, or null. average_*: means of the telemetry samples from the start
    of the first launch to the end of the last one; null without samples.
    """

    gpu_id: int
    gpu_uuid: str
    gpu_name: str
    kind: str
    shared_cores: bool
    slice_of: str | None
    slice_index: int | None
    shared_gpu: bool
    gpu_memory_total_mb: float | None
    driver_version: str | None
    cuda_version: str | None
    cuda_compute_capability: str | None
    gpu_architecture: str | None
    serial: str | None
    pci_address: str | None
    part_number: str | None
    vbios_version: str | None
    power_limit_w: float | None
    ecc_enabled: bool | None
    mig_enabled: bool | None
    persistence_mode: bool | None
    pcie_generation: int | None
    pcie_width: int | None
    busy_with: str | None
    quarantined: str | None
    average_gpu_utilization_percent: float | None
    average_power_draw_w: float | None


class ConfigurationReport(Part, frozen=True, kw_only=True):
    """Settings of the measurement. warmup_iterations and test_iterations are null if adaptive.

    precision: `precisions` as one text. *batch_sizes: 0 for `auto`. launches: planned launches of each cell.
    sequence_lengths, input_sizes, memory_format: empty or null if each model uses its default. required_signals:
    signals named by --require. preset: command with default settings of its own ("quick", "triage", "gate", "ops",
    "study"), or null. time_limit_seconds: of a preset or burn-in. profile: name in configs/profiles.yaml. isolation:
    how launches start, "fork" (of the zygote) or "exec" (new interpreter). mode: such as "loaded,solo".
    target_relative_half_width: a measurement may end once half of the confidence interval of the mean iteration time,
    divided by this mean, is this small.
    """

    precision: str
    precisions: tuple[str, ...]
    warmup_iterations: int | None
    test_iterations: int | None
    batch_sizes: tuple[int, ...]
    training_batch_sizes: tuple[int, ...]
    generation_batch_sizes: tuple[int, ...]
    sequence_lengths: tuple[int, ...]
    input_sizes: tuple[int, ...]
    memory_format: str | None
    monitor_gpu_enabled: bool
    monitor_interval_ms: int
    required_signals: tuple[str, ...]
    profile: str
    preset: str | None
    time_limit_seconds: float | None
    mode: str
    seed: int
    isolation: str
    launches: int
    target_relative_half_width: float
    models: tuple[str, ...]
    workloads: tuple[str, ...]
    allow_busy: bool


class CellEntry(Part, frozen=True, kw_only=True):
    """One planned cell and its final state.

    batch_size_requested: 0 for `-b auto`. batch_size: that of the figures; null without figures. refers_to: id of
    another planned cell that has the figures, if the status is referred; batch_size is then that of the other cell.
    reason: why the status is not ok, or "". launches: number of launches with a valid result. attempts: number of
    started launches, failed ones included. compile_mode: mode of torch.compile; "eager" without it, and in reports of
    earlier versions. quality: the result in a word (figures/quality.py); null in reports of earlier versions.
    """

    cell: str
    gpu_uuid: str
    gpu_id: int
    model_name: str
    workload: str
    precision: str
    input_size: int | None
    memory_format: str
    new_tokens: int | None
    batch_size_requested: int
    batch_size: int | None
    status: Status
    refers_to: str | None
    reason: str
    launches: int
    launches_planned: int
    attempts: int
    compile_mode: str = "eager"
    quality: Quality | None = None


class ExclusionReport(Part, frozen=True, kw_only=True):
    """Requested work that is not applicable to a device, and why."""

    gpu_uuid: str
    gpu_id: int
    model_name: str
    reason: str


class BestThroughput(Part, frozen=True, kw_only=True):
    """The cell with the highest throughput of the run, in samples per second. phase: "inference" or "training"."""

    model: str
    batch_size: int
    throughput: float
    phase: str
    precision: str
    gpu_id: int
    gpu_uuid: str


class CellCounts(Part, frozen=True, kw_only=True):
    """Numbers of planned cells by final state (Status, figures/cells.py). Two fields count some of them again.

    short_of_launches: cells with a good launch, but fewer than planned; dropped launches do not count as planned.
    throttled: cells with a good launch in which the GPU was slowed down.
    """

    planned: int
    ok: int
    degraded: int
    referred: int
    does_not_fit: int
    failed: int
    dropped: int
    missing: int
    short_of_launches: int
    throttled: int
    unsupported: int = 0


class Summary(Part, frozen=True, kw_only=True):
    """Summary of the run. rank_among_tested: always null. peak_memory_usage_mb: highest of all models at work.

    overall_score: speed in percent of the baseline's, a geometric mean over the cells; null without a baseline.
    score_note: how the score is defined, or why it is null. average_*: over all devices; null without telemetry.
    """

    overall_score: float | None
    rank_among_tested: int | None
    score_note: str
    best_model_throughput: BestThroughput | None
    peak_memory_usage_mb: float | None
    average_gpu_utilization: float | None
    average_power_draw_w: float | None
    cells: CellCounts


class Overhead(Part, frozen=True, kw_only=True):
    """Cost of a separate process for each launch.

    isolation: "fork" or "exec". note: how pays_from_launches is estimated, or why it is not. median_ms: median
    overhead of the launches with a result (overhead_ms of LaunchLedger). zygote_start_ms: start-up time of the zygote,
    which imports torch once and forks launches. pays_from_launches: least number of launches with which the zygote is
    faster than a new interpreter for each; null if no number is, or if no zygote was used.
    """

    isolation: str
    launches: int
    median_ms: float | None
    zygote_start_ms: float | None
    pays_from_launches: int | None
    note: str


class FailureReport(Part, frozen=True, kw_only=True):
    """A launch without a valid result. Not listed: batch sizes that a scan tried and that are too large.

    at: its start, ISO 8601. status: final state of its cell. attempt: its number, from 1, among the attempts at the
    cell. outcome: failure | damaged (the result file is missing or not valid) | interrupted (no end was recorded).
    category, phase, exception, evidence: of the failure. evidence["fault"]: what the failure is attributed to, if
    known. message: of the failure or damage. code: CUDA's error code, or the exit code of a process that reported no
    outcome. signal: number of the signal that ended the process according to the failure. folder: where its logs are,
    within the run's folder.
    """

    at: str
    launch: int
    cell: str
    status: Status
    gpu_uuid: str
    gpu_id: int
    model_name: str
    workload: str
    precision: str
    batch_size: int
    attempt: int
    outcome: str
    category: str | None
    message: str
    phase: str | None
    code: int | None
    signal: int | None
    exception: str | None
    evidence: dict[str, str]
    folder: str


class Report(Part, frozen=True, kw_only=True):
    """All results of a run, merged over its GPUs.

    cross_gpu: cells compared between identical devices. stragglers: verdict on every GPU, not only on slow ones. Names
    give the units: _ms milliseconds, _mb megabytes, _w watts, _j joules, _c degrees Celsius. 1 MB = 1024 x 1024 bytes
    here, as drivers count GPU memory. Null: not measured; a note beside it says why.
    """

    schema_version: int
    metadata: Metadata
    gpu_info: tuple[GpuInfo, ...]
    test_configuration: ConfigurationReport
    results: tuple[ModelResult, ...]
    probes: tuple[ProbeMetrics, ...]
    batch_scans: tuple[BatchScan, ...]
    cells: tuple[CellEntry, ...]
    excluded: tuple[ExclusionReport, ...]
    summary: Summary
    cross_gpu: tuple[Spread, ...]
    stragglers: tuple[Standing, ...]
    full_node: tuple[FullNode, ...]
    overhead: Overhead
    failures: tuple[FailureReport, ...]
    verdict: RunVerdict
    baseline_comparison: BaselineComparison | None
    thresholds: tuple[ThresholdResult, ...]
    costs: tuple[Cost, ...]
    health: HealthReport
    burn_in: BurnInReport | None
    operators: OperatorsReport | None = None
    study: StudyReport | None = None


def pauses_in_words(times_s: Sequence[float]) -> str:
    """Return in words how often and how long the orchestrator was suspended. times_s: seconds of each, at least one."""
    often = "" if len(times_s) == 1 else f" {len(times_s)} times,"
    total = f"for {sum(times_s):,.0f} s" + ("" if len(times_s) == 1 else " in all")
    why = "SIGSTOP, a paused machine or a slow disk"
    return f"the orchestrator was suspended{often} {total} ({why}); deadlines were paused"
