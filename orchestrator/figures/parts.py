"""Shared parts of report types: distribution of times, time by phase, attempts, plausibility."""

from typing import Final

import msgspec

SHARE_IN_DOUBT: Final = "what gemm sustains, of which this is a share, is itself in doubt"
"""First words of Plausibility.note if the rate of the gemm probe (matrix products) is uncertain."""
UNSTEADY: Final = "not steady after warm-up"
"""Words for a result whose times had not settled by the end of the warm-up."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all types of a report: immutable. Decoding raises msgspec.ValidationError for an undeclared field."""


class Statistics(Part, frozen=True, kw_only=True):
    """Distribution of the measured times of all launches together, for display only.

    forward_time_*: of the forward pass; null except for inference and training. iteration_time_*: of an iteration, such
    as a training step, loading the model or generating a text. values: number of iteration times, each over
    values_cover iterations. p95 is null below 20 values, p99 below 300, p99_9 below 3000. outliers: values more than
    three interquartile ranges outside the quartiles. No value is removed.
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
    forward_time_p99_9_ms: float | None
    iteration_time_mean_ms: float | None
    iteration_time_std_ms: float | None
    iteration_time_min_ms: float | None
    iteration_time_max_ms: float | None
    iteration_time_p50_ms: float | None
    iteration_time_p95_ms: float | None
    iteration_time_p99_ms: float | None
    iteration_time_p99_9_ms: float | None


class LaunchLedger(Part, frozen=True, kw_only=True):
    """Time of a launch by phase in milliseconds, medians over the launches of the cell.

    start: from the request to the first line of the process. import: import torch and the worker's modules. context:
    open the device. build: make model and inputs.
    compile: torch.compile with its first call. load: load the model (load cells only). measure: measured blocks and
    latency passes. count: count operations, check outputs. record: make, send, write and sync the result, and time
    between the other entries. teardown: until the device is free. overhead: all but compile, load, warm_up, measure.
    """

    start_ms: float
    import_ms: float
    context_ms: float
    build_ms: float
    compile_ms: float = 0.0
    load_ms: float
    warm_up_ms: float
    measure_ms: float
    count_ms: float
    record_ms: float | None
    teardown_ms: float | None
    overhead_ms: float


class AttemptReport(Part, frozen=True, kw_only=True):
    """One attempt at a cell: a started launch, in its own process. duration_ms: null if its end is unknown.

    outcome: result | failure | damaged (the result file is missing or not valid) | interrupted (no end was recorded).
    started: ISO 8601. round: in the plan, from 0. category, phase, exception, evidence: of a failure. message: of a
    failure or damage. code: CUDA's error code, or the exit code of a process that reported no outcome. exit_code,
    signal: how the process ended: by itself with an exit code, or by a signal (its number). The other one is null, and
    both if unknown. failure_signal: number of the signal that ended the process according to the failure. folder: where
    its logs are, within the run's folder.
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


class Plausibility(Part, frozen=True, kw_only=True):
    """A cell's time compared with its device's limits in this run.

    achieved_tflops: 1e12 operations/s as counted by torch, over the mean iteration. gemm_tflops: sustained rate of the
    probe of matrix products in the same precision. gemm_percent: achieved_tflops in percent of it. least_iteration_ms:
    least possible time of an iteration, in which the weights are read once at the memory bandwidth of the hbm probe.
    flags: impossible or unexplained figures, as texts. note: why a figure is null, or the gemm rate doubtful.
    """

    achieved_tflops: float | None
    gemm_tflops: float | None
    gemm_percent: float | None
    least_iteration_ms: float | None
    flags: tuple[str, ...]
    note: str


class SettingReport(Part, frozen=True, kw_only=True):
    """An environment variable of the run that changes what is measured. effect: what it changes."""

    name: str
    value: str
    effect: str
