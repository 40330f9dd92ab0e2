"""What is put side by side in the report: the same cell on identical devices, and the run and a stored one."""

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
    """The run against a stored one, in percent of throughput, as the requirements have it."""

    baseline_gpu: str
    improvement_percent: dict[str, float]
