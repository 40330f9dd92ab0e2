"""What a burn-in says of each GPU, as types: the verdict, every reason for it, and the evidence it stands on."""

import enum

from orchestrator.figures.parts import Part
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.stats.drift import DriftVerdict as CourseVerdict
from orchestrator.stats.slowdown_reasons import Reason


class Pace(enum.StrEnum):
    """What the rates of a GPU say, over time or beside its siblings'."""

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
    """What one kind of check did on one GPU.

    verified_operations: floating-point operations whose results were compared. verified_bytes: of memory, or
    of transfers.
    error_bound: the share of wrong checks that is excluded with 95 % confidence, 3/n; error_bound_per_hour: how many in
    an hour of these checks. null where something was found.
    method: how outputs were compared.
    covered_share: by the test of memory, of what was free (on a CPU: planned), 0 to 1; covered: the same in words. null
    and empty for other checks.
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
    """One thing that speaks for the verdict, and what to do about it (empty: nothing)."""

    verdict: HealthVerdict
    text: str
    action: Action


class HeatSoakReport(Part, frozen=True, kw_only=True):
    """What was left out of the judgement of rates, because the GPU was still warming up. Errors count all the same.

    left_out_seconds: from the beginning of each stretch of work on, together; null where the first round was left out.
    ended_because: one for each way in which it ended. reached_c: its hottest ten seconds.
    """

    left_out_seconds: float | None
    ended_because: tuple[Ending, ...]
    reached_c: float | None


class CourseReport(Part, frozen=True, kw_only=True):
    """How rates went over the night. against: "by itself" as they were measured, or "against its siblings".

    change_percent, with its 95 % interval: of the last fifth of the time against the first; below zero is slower.
    percent_per_hour: the trend. step_at_hours: when it changed at once. null where there is nothing of the kind.
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
    """What one kind of rates says: over the night, or beside the siblings.

    courses: over the night, each of its courses; the one by itself always, where there were rates.
    reason, reason_text: of a GPU that is slower, what probably made it so; null where that is not known.
    rate_per_clock_percent: by how much its work at each tick of its clock differs.
    """

    kind: str
    pace: Pace
    text: str
    reason: Reason | None
    reason_text: str
    rate_per_clock_percent: float | None
    courses: tuple[CourseReport, ...]


class GpuBurnIn(Part, frozen=True, kw_only=True):
    """One GPU. asked_seconds, served_seconds: what was asked for, and how long it was at work, ordinary gaps included.

    under_load_seconds: in measured blocks. compared_launches: whose bits were held against another launch's.
    heat_soak: null for a CPU device, whose rates are not judged. paces: what its rates say.
    not_tested: what was not tested → why. unfinished: what of that was planned, and did not come to its end; the rest
    cannot be tested here at all.
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
    """How fast the devices of one kind are connected, in GB/s of 1e9 bytes; medians over the launches.

    precision: of what is added up. connection: by what, whether NCCL may use NVLink multicast, and how it was verified.
    copies: what each device sends to all others, at the same time as they do.
    all_reduce: bytes of one device over the time, and on the bus: times 2(n-1)/n, which for n devices is what each has
    to send. to_host, to_device: pinned memory, all devices at the same time. null where there is nothing of the kind.
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
    """What became of a fault that was asked for, the gravest first."""

    MISSED = "not found"
    IN_PART = "found in part"
    UNDONE = "not brought about"
    FOUND = "found"


class InjectedReport(Part, frozen=True, kw_only=True):
    """A fault that was brought about on purpose, in words. found: wherever it was brought about. outcome: in words.

    fate: the same in a word; null in reports of older versions.
    """

    gpu_uuid: str
    fault: str
    found: bool
    outcome: str
    fate: Fate | None = None


class BurnInReport(Part, frozen=True, kw_only=True):
    """The night. verdict: that of the worst GPU. injected: faults that were asked for; empty for a real night.

    wrong_transfers: copies, sums and numbers of a device before it sent or added them, each counted once, where it was
    found: a copy may count against both of its ends, and what follows from others counts against none.
    """

    level: str
    duration_seconds: float
    tainted: bool
    verdict: HealthVerdict
    gpus: tuple[GpuBurnIn, ...]
    links: tuple[LinksReport, ...]
    wrong_transfers: int = 0
    injected: tuple[InjectedReport, ...]
