"""Report types of comparisons: siblings (identical GPUs of the run), solo and loaded, baseline, thresholds; price."""

import enum
from typing import Final

from orchestrator.figures.cells import Status
from orchestrator.figures.parts import Part
from orchestrator.stats.slowdown_reasons import Reason
from orchestrator.stats.stragglers import Bound, SiblingVerdict


class SpreadValue(Part, frozen=True, kw_only=True):
    """One device in a comparison of identical devices. not_comparable: why its value is excluded.

    percent_of_median: value in percent of the median of the included values. It is null for a device that is excluded
    for another reason than throttling. With fewer than two included values, it is null for all devices.
    """

    gpu_uuid: str
    gpu_id: int
    status: Status
    batch_size: int | None
    value: float | None
    percent_of_median: float | None
    not_comparable: str | None


class Spread(Part, frozen=True, kw_only=True):
    """Figures of the same cell on identical devices: equal name, kind and memory.

    phase: workload, such as "inference". values: in the unit of `metric`: a rate, or a time of loading. spread_percent:
    (largest - smallest) / median. comparison: COMPARED, or NOT COMPARABLE below two values. notes: excluded devices
    with the reason, and doubts about the comparison.
    """

    gpu_name: str
    model_name: str
    phase: str
    precision: str
    mode: str
    input_size: int | None
    memory_format: str | None
    new_tokens: int | None
    compile_mode: str = "eager"
    batch_size_requested: int
    metric: str
    values: tuple[SpreadValue, ...]
    median: float | None
    spread_percent: float | None
    comparison: str
    notes: tuple[str, ...]


class SiblingEffect(Part, frozen=True, kw_only=True):
    """Rate of a GPU in percent of its siblings' median, with the 90 % interval.

    cell: name of the cell; empty if the rate is that of all cells of this mode whose speed has this limit (bound).
    margin_percent: tolerated deficit. p: probability that chance alone gives such a deficit beyond the margin. cells:
    number of cells. launches: number of launches of the cell with the fewest.
    """

    cell: str
    mode: str
    bound: Bound
    percent: float
    low_percent: float
    high_percent: float
    margin_percent: float
    p: float
    cells: int
    launches: int


SLOWED_DOWN: Final = "SLOWED DOWN"


class Standing(Part, frozen=True, kw_only=True):
    """Comparison of one GPU with its identical siblings (docs/method.md).

    why: reason for the verdict, or why there is none. identical: number of identical GPUs in the run, with this one.
    effects: one rate for each mode and bound (power, clock, ...), over all cells that this bound limits. percent,
    low_percent, high_percent: rate in percent of the siblings' median, with the 90 % interval; those of the effect that
    decides the verdict. p: p-value after Holm's correction over the GPUs. slowest_cells: at most 5 cells in which the
    GPU is slower than its siblings: first those that the verdict counts as slow, then others. They are empty if the
    verdict is OK, SPLIT or NONE. reason, reason_text: probable reason why the GPU is slow, and the same in words; null
    and "" without one. next_step: advice, or "". not_comparable: differing fact → number of cells excluded for it.
    launches_wanted: total launches per cell that may resolve SUSPECT; null for other verdicts, and if no number would.
    launches_added: launches beyond the plan, because an identical GPU was SUSPECT. baseline: name of the board's
    baseline, or empty. baseline_percent: rate in percent of the baseline's, with the 90 % interval.
    """

    gpu_uuid: str
    gpu_id: int
    gpu_name: str
    verdict: SiblingVerdict
    why: str
    identical: int
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    p: float | None
    effects: tuple[SiblingEffect, ...]
    slowest_cells: tuple[SiblingEffect, ...]
    reason: Reason | None
    reason_text: str
    next_step: str
    not_comparable: dict[str, int]
    launches_wanted: int | None
    launches_added: int = 0
    baseline: str = ""
    baseline_percent: float | None = None
    baseline_low_percent: float | None = None
    baseline_high_percent: float | None = None

    @property
    def slowed(self) -> bool:
        """Whether heat or power slowed the GPU down, and it was not found slower than its siblings."""
        return self.reason is not None and self.verdict in (SiblingVerdict.OK, SiblingVerdict.NONE)

    @property
    def word(self) -> str:
        """Displayed verdict: SLOWED DOWN if `slowed`, else the verdict of the comparison with siblings."""
        return SLOWED_DOWN if self.slowed else self.verdict


class FullNode(Part, frozen=True, kw_only=True):
    """A cell of one device alone on the node (solo) compared with all devices at work (loaded).

    cell: its name, not its id. phase: workload, such as "inference". solo, loaded: geometric means over the launches,
    in the unit of `metric`.
    ratio: solo speed divided by loaded speed; above 1, the full node is slower. low, high: its 95 % interval (null if a
    side has one launch). lost_percent: speed lost on the full node, in percent of the solo speed. not_comparable: why
    the sides are not compared, or null.
    """

    gpu_uuid: str
    gpu_id: int
    cell: str
    phase: str
    model_name: str
    precision: str
    input_size: int | None
    batch_size_requested: int
    metric: str
    solo: float | None
    loaded: float | None
    ratio: float | None
    low: float | None
    high: float | None
    lost_percent: float | None
    not_comparable: str | None
    notes: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """Reason why the two modes cannot be compared, and notes; may be empty."""
        reason = () if self.not_comparable is None else (f"not comparable ({self.not_comparable})",)
        return "; ".join((*reason, *self.notes))


class BaselineComparison(Part, frozen=True, kw_only=True):
    """The run compared with a stored run, the baseline.

    baseline_gpu: names of its GPU models. baseline_date: its start, ISO 8601. improvement_percent: `<model>_throughput`
    or `overall` → 100 * (mean - 1), above 0 if the run is faster. mean: geometric mean, over the cells of the model or
    over all, of the cell's speed in the run divided by its speed in the baseline. Several devices of one side count as
    their median. overall_score: 100 * mean over all cells; null without one. cells: number of scored cells.
    not_comparable: reason → number of excluded cells. note: remarks on the score, or "".
    """

    baseline: str
    baseline_gpu: str
    baseline_date: str
    improvement_percent: dict[str, float]
    overall_score: float | None
    cells: int
    not_comparable: dict[str, int]
    note: str


class Met(enum.StrEnum):
    """Whether a cell met a threshold. NOT_MEASURED: it has no figure that can be judged, or no cell matches."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


class ThresholdResult(Part, frozen=True, kw_only=True):
    """One threshold compared with one cell; without a matching cell, fields of the cell are null. target: "< 100 ms".

    actual: the figure in `unit`; null if it is unknown or not judged. note: why it is null, or doubts about it, or "".
    cell: its id. phase: its workload, such as "inference". implementation, shape, time: identify a time of an operator;
    null otherwise.
    """

    threshold: str
    figure: str
    target: str
    actual: float | None
    unit: str
    status: Met
    note: str
    cell: str | None
    gpu_id: int | None
    gpu_uuid: str | None
    model_name: str | None
    phase: str | None
    precision: str | None
    batch_size: int | None
    implementation: str | None = None
    shape: str | None = None
    time: str | None = None


class Cost(Part, frozen=True, kw_only=True):
    """Price (in the currency of price_per_hour) and energy (kWh) of a million samples or tokens (unit) on a device.

    phase: "inference", "training" or "generation". energy_kwh_per_million: null if unknown. cell: its id.
    """

    gpu_uuid: str
    gpu_id: int
    model_name: str
    phase: str
    precision: str
    batch_size: int
    unit: str
    price_per_hour: float
    price_per_million: float
    energy_kwh_per_million: float | None
    cell: str = ""
