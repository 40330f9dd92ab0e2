"""Report types of a burn-in: the verdict of each GPU, its reasons, and the evidence."""

import enum

from orchestrator.figures.parts import Part
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.stats.drift import DriftVerdict as CourseVerdict
from orchestrator.stats.slowdown_reasons import Reason


class Pace(enum.StrEnum):
    """Result of comparing a GPU's rates over time or with its siblings."""

    STEADY = "steady"
    SLOWER = "slower"
    INCONCLUSIVE = "cannot be told"


class Ending(enum.StrEnum):
    """What ended the heat soak."""

    STEADY = "the temperature was steady"
    CAP = "it had taken as long as it may"
    WORK_ENDED = "the work ended before the temperature was steady"
    FIRST_ROUND = "the first round was over; no temperature could be read"


class CheckReport(Part, frozen=True, kw_only=True):
    """One kind of check on one GPU.

    verified_operations: floating-point operations whose results were compared. verified_bytes: compared bytes of memory
    or transfers. error_bound: share of wrong checks excluded with 95 % confidence, 3/n; error_bound_per_hour: the same
    per hour of checks. Both are null where errors were found. method: how outputs were compared. covered_share: of the
    free memory, 0 to 1 (CPU: of the planned memory); null for other checks.
    """

    check: str
    launches: int
    checks: int
    verified_operations: float
    verified_bytes: int
    measured_seconds: float
    mismatches: int
    error_bound: float | None
    error_bound_per_hour: float | None
    method: str
    covered_share: float | None = None
    covered: str = ""


class ReasonReport(Part, frozen=True, kw_only=True):
    """A reason for the verdict, and what to do about it (empty: nothing)."""

    verdict: HealthVerdict
    text: str
    action: Action


class HeatSoakReport(Part, frozen=True, kw_only=True):
    """The heat soak, which the judgement of rates excludes. Its errors count.

    left_out_seconds: excluded from the beginning of each stretch of work; null if the whole first round was excluded.
    reached_c: median temperature of the hottest ten-second window.
    """

    left_out_seconds: float | None
    ended_because: tuple[Ending, ...]
    reached_c: float | None


class CourseReport(Part, frozen=True, kw_only=True):
    """Rates over the burn-in: "by itself" as measured, or "against its siblings".

    change_percent: last fifth of the time relative to the first, with its 95 % interval; negative is slower.
    percent_per_hour: trend. step_at_hours: time of a sudden change. null: unknown, or none.
    """

    against: str
    verdict: CourseVerdict
    hours: float
    change_percent: float | None
    change_low_percent: float | None
    change_high_percent: float | None
    percent_per_hour: float | None
    step_at_hours: float | None


class PaceReport(Part, frozen=True, kw_only=True):
    """Judgement of one kind of rates.

    courses: rates over the burn-in, those "by itself" first. reason: probable reason of a slower GPU; null if unknown.
    rate_per_clock_percent: change of the work per clock cycle.
    """

    kind: str
    pace: Pace
    text: str
    reason: Reason | None
    reason_text: str
    rate_per_clock_percent: float | None
    courses: tuple[CourseReport, ...]


class GpuBurnIn(Part, frozen=True, kw_only=True):
    """Burn-in of one GPU.

    asked_seconds: requested time. served_seconds: time at work, with ordinary gaps. under_load_seconds: time of the
    measured blocks. compared_launches: launches whose bits were compared with another launch's. heat_soak: null for a
    CPU device, whose rates are not judged. not_tested: check → reason. unfinished: planned but incomplete checks among
    them.
    """

    gpu_uuid: str
    gpu_id: int
    verdict: HealthVerdict
    action: Action
    reasons: tuple[ReasonReport, ...]
    asked_seconds: float
    served_seconds: float
    under_load_seconds: float
    rounds: int
    checks: tuple[CheckReport, ...]
    compared_launches: int
    heat_soak: HeatSoakReport | None
    paces: tuple[PaceReport, ...]
    temperature_max_c: float | None
    average_power_draw_w: float | None
    not_tested: dict[str, str]
    unfinished: tuple[str, ...] = ()


class LinksReport(Part, frozen=True, kw_only=True):
    """Speed of the links between devices of one kind, medians over the launches. In 1e9 bytes/s.

    precision: of the values that all-reduce adds up. connection: type, whether NCCL may use NVLink multicast, and how
    it was verified. copies: from each device to all others at once. all_reduce: bytes of one device over the time; on
    the bus: times 2(n-1)/n for n devices. to_host, to_device: pinned memory, all devices at once.
    """

    gpu_uuids: tuple[str, ...]
    precision: str
    connection: str
    launches: int
    copies_gb_per_second: float | None
    all_reduce_gb_per_second: float | None
    all_reduce_bus_gb_per_second: float | None
    to_host_gb_per_second: float | None
    to_device_gb_per_second: float | None


class Fate(enum.StrEnum):
    """Outcome of a requested fault, the gravest first."""

    MISSED = "not found"
    IN_PART = "found in part"
    UNDONE = "not brought about"
    FOUND = "found"


class InjectedReport(Part, frozen=True, kw_only=True):
    """An injected fault. found: whether it was found on any device. fate: null in reports of earlier versions."""

    gpu_uuid: str
    fault: str
    found: bool
    outcome: str
    fate: Fate | None = None


class BurnInReport(Part, frozen=True, kw_only=True):
    """The burn-in. verdict: of the worst GPU. injected: requested faults, if any.

    wrong_transfers: wrong copies, all-reduce sums, and numbers to send, without errors that others caused. A wrong copy
    may count for both of its devices.
    """

    level: str
    duration_seconds: float
    tainted: bool
    verdict: HealthVerdict
    gpus: tuple[GpuBurnIn, ...]
    links: tuple[LinksReport, ...]
    wrong_transfers: int = 0
    injected: tuple[InjectedReport, ...]
