"""Common parts of metrics: shape of times, ledger, attempts, plausibility."""

from typing import Final

import msgspec

SHARE_IN_DOUBT: Final = "what gemm sustains, of which this is a share, is itself in doubt"
"""Beginning of a Plausibility's note where gemm was not settled."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the report."""


class Statistics(Part, frozen=True, kw_only=True):
    """Shape of the measured times of all launches together: for the eye, nothing is concluded from it.

    forward_time_*: of the forward pass; iteration_time_*: of the whole step, load, or generated text. values: number of
    times; each covers values_cover iterations (very short ones are timed several at once). p95 is null below 20 values,
    p99 below 300, p99_9 below 3000. outliers: more than three interquartile ranges outside the quartiles; none is
    removed.
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
    """Time of a launch by phase, medians over the launches of the cell, in milliseconds.

    start: from the request to the first line of the process. measure: latencies too. count: operations counted, and
    outputs checked. record: the result made, sent, written and synced, and time between the other entries. teardown:
    from then on to the device free again. Those of one launch add up to its whole time. overhead: start, import,
    context, build, count, record and teardown.
    """

    start_ms: float
    import_ms: float
    context_ms: float
    build_ms: float
    load_ms: float
    warm_up_ms: float
    measure_ms: float
    count_ms: float
    record_ms: float | None
    teardown_ms: float | None
    overhead_ms: float


class AttemptReport(Part, frozen=True, kw_only=True):
    """One attempt at a cell, in a process of its own. outcome: result | failure | damaged | interrupted.

    damaged: the result file is not what the journal promised. interrupted: no end was written. folder: of its log
    files, within the run's folder. exit_code, signal: end of the process.
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
    """A cell's time compared with its device's limits in this run. One TFLOP/s is 1e12 operations.

    achieved_tflops: operations as torch counts them, over the mean iteration. gemm_tflops: what matrix products sustain
    in the same precision; gemm_percent: the achieved share. least_iteration_ms: time to read the model's weights once
    at the rate of hbm. flags: what is impossible, or needs an explanation. note: why a figure is null, and whether the
    rate of gemm is in doubt itself.
    """

    achieved_tflops: float | None
    gemm_tflops: float | None
    gemm_percent: float | None
    least_iteration_ms: float | None
    flags: tuple[str, ...]
    note: str


class SettingReport(Part, frozen=True, kw_only=True):
    """Environment variable that changes what is measured. effect: on the figures."""

    name: str
    value: str
    effect: str
