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
    UNTOLD = "cannot be told"


class Ending(enum.StrEnum):
    """What ended the heat soak."""

    STEADY = "the temperature was steady"
    CAP = "it had taken as long as it may"
    WORK_ENDED = "the work ended before the temperature was steady"
    FIRST_ROUND = "the first round was over; no temperature could be read"


class CheckReport(Part, frozen=True, kw_only=True):
    """One kind of check on one GPU.

    verified_operations: floating-point operations whose results were compared. verified_bytes: of memory or transfers.
    error_bound: the share of wrong checks that is excluded with 95 % confidence, 3/n; error_bound_per_hour: in an hour
    of these checks. null where something was found. method: how outputs were compared. covered_share: of the free
    memory (on a CPU: planned), 0 to 1; covered: the same as text. null and empty for other checks.
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
    """The heat soak, which is excluded from the judgement of rates. Errors in it count.

    left_out_seconds: excluded time from the beginning of each stretch of work; null where the first round was excluded.
    ended_because: each way in which it ended. reached_c: its hottest ten seconds.
    """

    left_out_seconds: float | None
    ended_because: tuple[Ending, ...]
    reached_c: float | None


class CourseReport(Part, frozen=True, kw_only=True):
    """Course of rates over the night. against: "by itself" as measured, or "against its siblings".

    change_percent, with its 95 % interval: of the last fifth of the time against the first; below zero is slower.
    percent_per_hour: the trend. step_at_hours: time of a sudden change. null where not known, or none.
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
    """Judgement of one kind of rates: over the night, or compared with the siblings.

    courses: over the night; the one by itself always, where there were rates. reason, reason_text: of a slower GPU,
    probably; null where not known. rate_per_clock_percent: difference of its work at each tick of its clock.
    """

    kind: str
    pace: Pace
    text: str
    reason: Reason | None
    reason_text: str
    rate_per_clock_percent: float | None
    courses: tuple[CourseReport, ...]


class GpuBurnIn(Part, frozen=True, kw_only=True):
    """Burn-in of one GPU. asked_seconds: requested time; served_seconds: time at work, ordinary gaps included.

    under_load_seconds: in measured blocks. compared_launches: with bits compared with another launch's. heat_soak: null
    for a CPU device, whose rates are not judged. paces: judgements of its rates. not_tested: what was not tested → why.
    unfinished: what of that was planned and not completed; the rest cannot be tested here at all.
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
    """Speed of the links between the devices of one kind, in GB/s of 1e9 bytes; medians over the launches.

    precision: of what is added up. connection: type, whether NCCL may use NVLink multicast, and how it was verified.
    copies: from each device to all others, all at the same time. all_reduce: bytes of one device over the time, and on
    the bus: times 2(n-1)/n, which each of n devices has to send. to_host, to_device: pinned memory, all devices at the
    same time. null where there is none.
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
    """An injected fault, as text. found: wherever it was caused. outcome: as text.

    fate: the same in a word; null in reports of older versions.
    """

    gpu_uuid: str
    fault: str
    found: bool
    outcome: str
    fate: Fate | None = None


class BurnInReport(Part, frozen=True, kw_only=True):
    """The burn-in. verdict: that of the worst GPU. injected: requested faults; empty for a real burn-in.

    wrong_transfers: wrong copies, sums and own numbers of a device, each counted once, where it was found: a copy may
    count against both of its ends; consequences of others' errors are not counted.
    """

    level: str
    duration_seconds: float
    tainted: bool
    verdict: HealthVerdict
    gpus: tuple[GpuBurnIn, ...]
    links: tuple[LinksReport, ...]
    wrong_transfers: int = 0
    injected: tuple[InjectedReport, ...]
