"""Report types of a burn-in: the verdict of each GPU, its reasons, and the evidence."""

import enum

from orchestrator.figures.parts import Part
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.stats.drift import DriftVerdict as CourseVerdict
from orchestrator.stats.slowdown_reasons import Reason


class Pace(enum.StrEnum):
    """Verdict on a GPU's rates, compared over time or with its siblings."""

    STEADY = "steady"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"


class Ending(enum.StrEnum):
    """Event that ended the heat soak, the time at the start in which a GPU warms up."""

    STEADY = "the temperature was steady"
    CAP = "its time limit was reached"
    WORK_ENDED = "the work ended before the temperature was steady"
    FIRST_ROUND = "the first round was over; no temperature could be read"


class CheckReport(Part, frozen=True, kw_only=True):
    """One kind of check on one GPU. checks: number of comparisons.

    verified_operations: floating-point operations whose results were compared. verified_bytes: compared bytes of memory
    or transfers. mismatches: number of comparisons that found an error. error_bound: upper limit of the share of wrong
    checks with 95 % confidence, 3/n after n right ones. error_bound_per_hour: upper limit of wrong checks per measured
    hour. Both are null if errors were found, or without checks. method: how outputs were compared. covered_share: share
    of the free memory of a GPU, or of the planned memory of a CPU device, that was checked, 0 to 1. It is null for
    checks that do not test memory. covered: this share in words, or "".
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
    """A reason for the verdict on a GPU, and what to do about it (empty: nothing)."""

    verdict: HealthVerdict
    text: str
    action: Action


class HeatSoakReport(Part, frozen=True, kw_only=True):
    """The heat soak of a GPU, in which it warms up. Rates during it are not judged, but errors during it count.

    excluded_seconds: time at the start of each session whose rates are not judged, summed over the sessions. It is null
    if the whole first round was excluded instead. ended_because: what ended the heat soaks of the sessions, each once.
    reached_c: median temperature of the hottest ten-second window of the heat soaks; null without readings.
    """

    excluded_seconds: float | None
    ended_because: tuple[Ending, ...]
    reached_c: float | None


class CourseReport(Part, frozen=True, kw_only=True):
    """Change of a GPU's rates over the burn-in. against: "by itself", or "against its siblings" for relative rates.

    hours: length of the compared time. change_percent: change from the first fifth of this time to its last, with the
    95 % interval; negative is slower. percent_per_hour: slope of the trend. step_at_hours: hours from the start of the
    compared time to a sudden change; null without one. The other figures are null if unknown.
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
    """Verdict on one kind of rates of a GPU, such as its rates in training. text: the evidence.

    courses: changes over the burn-in, those "against its siblings" first. reason: probable reason why the GPU is
    slower. reason_text: this reason in words, else "". rate_per_clock_percent: change of the work per SM clock cycle:
    over the burn-in if the GPU became slower, compared with its siblings if it is slower than they are. reason and
    rate_per_clock_percent are null if unknown, or if the GPU is not slower.
    """

    kind: str
    pace: Pace
    text: str
    reason: Reason | None
    reason_text: str
    rate_per_clock_percent: float | None
    courses: tuple[CourseReport, ...]


class GpuBurnIn(Part, frozen=True, kw_only=True):
    """Result of the burn-in on one GPU.

    reasons: gravest first. action: that of the first reason. rounds: number of rounds with a result of the GPU.
    served_seconds: time that counts towards requested_seconds. That is the time in launches, up to 20 s of each gap
    between launches, and up to 20 s before the first launch of the run. All gaps of a session together count for at
    most as long as its launches took. So does the time before the first launch. under_load_seconds: time of the
    measured blocks only. compared_launches: number of launches whose output bits were compared with those of another
    launch. heat_soak: null without launches, and for a CPU device, whose rates are not judged. not_tested: check or
    rate → why it was not tested. unfinished: the checks in not_tested that were planned but did not finish.
    not_decided: the rates in not_tested that were measured but have no verdict.
    """

    gpu_uuid: str
    gpu_id: int
    verdict: HealthVerdict
    action: Action
    reasons: tuple[ReasonReport, ...]
    requested_seconds: float
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
    not_decided: tuple[str, ...] = ()


class LinksReport(Part, frozen=True, kw_only=True):
    """Rates of the links between devices of one kind: medians over the launches, in 1e9 bytes/s; null if unmeasured.

    precision: of the values that all-reduce adds up. connection: type of the links, whether NCCL may use NVLink
    multicast, and how transfers were verified. copies: from each device to all others at once. all_reduce: bytes of one
    device divided by the time; all_reduce_bus: this rate times 2(n-1)/n for n devices. to_host, to_device: copies to
    and from pinned host memory, all devices at once.
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
    """Outcome of a fault that the user asked to inject, the gravest first.

    IN_PART: found in some of the launches with the fault. UNDONE: no launch that would have the fault has a result.
    """

    MISSED = "not found"
    IN_PART = "found in part"
    UNDONE = "not brought about"
    FOUND = "found"


class InjectedReport(Part, frozen=True, kw_only=True):
    """An injected fault. fault: what it did to its GPU. outcome: whether and where it was found, in words.

    found: false also if it was found in part. fate: the outcome in a word; null in reports of earlier versions.
    """

    gpu_uuid: str
    fault: str
    found: bool
    outcome: str
    fate: Fate | None = None


class BurnInReport(Part, frozen=True, kw_only=True):
    """Result of a burn-in. verdict: the worst verdict on a GPU. tainted: faults were injected on purpose.

    level: quick, standard or full. duration_seconds: as requested. wrong_transfers: number of wrong copies, wrong
    all-reduce sums and wrong values before sending, including errors that follow from another error. The checks in
    `gpus` exclude errors that follow from another GPU's error. They count a wrong copy for both devices if either may
    be at fault.
    """

    level: str
    duration_seconds: float
    tainted: bool
    verdict: HealthVerdict
    gpus: tuple[GpuBurnIn, ...]
    links: tuple[LinksReport, ...]
    wrong_transfers: int = 0
    injected: tuple[InjectedReport, ...]
