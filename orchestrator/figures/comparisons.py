"""Report types of comparisons: identical devices, siblings, full node, stored run, thresholds and price."""

import enum
from typing import Final

from orchestrator.figures.cells import Status
from orchestrator.figures.parts import Part
from orchestrator.stats.siblings import Bound, SiblingVerdict
from orchestrator.stats.slowdown_reasons import Reason


class SpreadValue(Part, frozen=True, kw_only=True):
    """One device in a comparison. not_comparable: why its value is excluded from median and spread, else null.

    percent_of_median: of the included values; null for an excluded one, unless it was throttled.
    """

    gpu_uuid: str
    gpu_id: int
    status: Status
    batch_size: int | None
    value: float | None
    percent_of_median: float | None
    not_comparable: str | None


class Spread(Part, frozen=True, kw_only=True):
    """The same cell on identical devices (name, kind, memory).

    value: samples, tokens, operations or bytes a second, for loading a time; metric names it. spread_percent: largest
    less smallest, as a share of the median, over the values that compare. comparison: COMPARED, or NOT COMPARABLE when
    fewer than two values compare.
    """

    gpu_name: str
    model_name: str
    phase: str
    precision: str
    mode: str
    input_size: int | None
    memory_format: str | None
    new_tokens: int | None
    batch_size_requested: int
    metric: str
    values: tuple[SpreadValue, ...]
    median: float | None
    spread_percent: float | None
    comparison: str
    notes: tuple[str, ...]


class SiblingEffect(Part, frozen=True, kw_only=True):
    """A GPU's rate as a share of its siblings' median, with the 90 % interval: 94 is 6 % slower.

    Over all cells of one mode with the same limit (bound), or in `cell` alone where it names one. margin_percent: by
    which it may be slower. p: of such a deficit beyond it by chance, for this effect alone. launches: the fewest.
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
    """Whether one GPU is slower than its identical siblings by more than healthy ones differ: docs/method.md.

    verdict: OK | SUSPECT | STRAGGLER | no verdict, and why. identical: number of the same GPUs in the run. percent,
    low_percent, high_percent: in the effect that decides, null without a verdict. p: after Holm over the GPUs. effects:
    by mode and limit of the cells. slowest_cells: the slowest first; empty for one that is OK. reason: probable reason,
    and next_step what to do; empty for one that is OK, or has no verdict, and was not slowed down either.
    not_comparable: excluded cells, by the fact that differs. launches_wanted: of each cell, in all, that should settle
    a SUSPECT; null where none would. launches_added: beyond the plan, because one of the identical GPUs was SUSPECT.
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

    @property
    def slowed(self) -> bool:
        """Held down for heat or power, though not slower than its siblings: there may be none."""
        return self.reason is not None and self.verdict in (SiblingVerdict.OK, SiblingVerdict.NONE)

    @property
    def word(self) -> str:
        """Verdict in a word or two."""
        return SLOWED_DOWN if self.slowed else self.verdict


class FullNode(Part, frozen=True, kw_only=True):
    """A cell of one device alone on the node (solo) compared with the same with all devices at work (loaded).

    solo, loaded: geometric means over the launches, in the unit of `metric`; null where not measured. ratio: of the
    speed, solo over loaded: 1.05 is 5 % faster alone. lost_percent: speed that the full node costs. low, high: the 95 %
    interval of the ratio; null where a side has one launch. not_comparable: why there is no ratio.
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
        """Text beside the figures, or empty."""
        reason = () if self.not_comparable is None else (f"not comparable ({self.not_comparable})",)
        return "; ".join((*reason, *self.notes))


class BaselineComparison(Part, frozen=True, kw_only=True):
    """The run compared with a stored one. improvement_percent: as the requirements define it.

    Keys are `<model>_throughput`, one for each model that both have measured, and `overall`: the geometric mean of the
    ratios, over the cells of the model or over all, less one, in percent. Devices of one side are taken together by
    their median. overall_score: 100 times the mean over all; null where nothing compares. not_comparable: excluded
    cells by reason.
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
    """Whether a threshold was met. NOT_MEASURED: no cell of the run has that figure."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


class ThresholdResult(Part, frozen=True, kw_only=True):
    """One limit, compared with one cell, or with none where no cell of the run matches.

    threshold: its name. target: text such as "< 100 ms". actual: in the unit of the target.
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


class Cost(Part, frozen=True, kw_only=True):
    """Price and energy of a million samples, or tokens, on one device.

    price_per_million: in the currency of price_per_hour. energy_kwh_per_million: null where it was not measured. unit:
    of the million. batch_size: that ran. cell: the id.
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
