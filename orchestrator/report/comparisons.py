"""What is put side by side in the report: the same cell on identical devices, and the run and a stored one."""

import enum

from orchestrator.disk.outcomes import Status
from orchestrator.report.parts import Part


class SpreadValue(Part, frozen=True, kw_only=True):
    """One device in a comparison. not_comparable: why its value is left out of median and spread, null if it is in."""

    gpu_uuid: str
    gpu_id: int
    status: Status
    batch_size: int | None
    value: float | None
    percent_of_median: float | None
    not_comparable: str | None


class Spread(Part, frozen=True, kw_only=True):
    """The same cell on identical devices (name, kind, memory), side by side.

    value: samples, tokens, operations or bytes a second, for loading a time; metric says which, by its name above.
    spread_percent: largest less smallest, as a share of the median, over the values that compare.
    comparison: COMPARED, or NOT COMPARABLE when fewer than two values compare. notes: what to know before believing it.
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


class BaselineComparison(Part, frozen=True, kw_only=True):
    """The run against a stored one. improvement_percent: as the requirements have it.

    Keys are `<model>_throughput`, one for each model that both have measured, and `overall`: the geometric mean of the
    ratios, over the cells of the model or over all, less one, in percent. Devices of one side are taken together by
    their median. overall_score: 100 times the mean over all; null where nothing compares. not_comparable: by reason,
    how many cells are left out. note: what else to know.
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
    """Whether a threshold was met. NOT_MEASURED: no cell of the run has that figure, so nobody knows."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


class ThresholdResult(Part, frozen=True, kw_only=True):
    """One limit, held against one cell; against none where no cell of the run is meant by it.

    threshold: its name. target: in words, "< 100 ms". actual: in the unit of the target.
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
    """What a million samples, or tokens, cost on one device at the price of an hour of it, and the energy they take.

    price: of the million, in whatever currency the price of the hour is in. energy_kwh: null where it was not measured.
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
