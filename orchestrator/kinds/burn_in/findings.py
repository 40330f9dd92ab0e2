"""Types for the facts of one GPU after a burn-in. analysis.py collects them, verdict.py judges them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures.burn_in import Pace
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.bit_comparison import Deviation
from orchestrator.kinds.burn_in.memory_test import Covered
from orchestrator.stats.drift import Course
from orchestrator.stats.slowdown_reasons import Why
from protocol.cell import Cell, Workload
from protocol.verification import Mismatch


def cell_name(cell: Cell) -> str:
    """Return the name of a cell without its device: "verified matrix products of gemm in bf16"."""
    return f"{WORKLOADS[cell.workload].title} of {cell.model} in {cell.precision}"


@dataclass(frozen=True)
class RateVerdict:
    """Verdict on one kind of rate of a GPU: its speed over time, or compared with siblings.

    pace: the verdict. text: the evidence. why: probable reason why the GPU is slower; None if it is not, or if unknown.
    aside: which work was not judged, and why. undecided: what a comparison with siblings does not rule out; for a
    verdict over time, text says what is inconclusive. Both are "" if there is nothing. courses: ITSELF or SIBLINGS
    (rate_courses.py) → change of the rates over time, by themselves or relative to those of its siblings; empty if the
    verdict only compares the GPU with its siblings.
    """

    pace: Pace
    text: str
    why: Why | None = None
    aside: str = ""  # which work was not judged, and why; also part of text
    undecided: str = ""  # the open question in short, the same for all GPUs that have it
    courses: Mapping[str, Course] = field(default_factory=dict)


@dataclass(frozen=True)
class Tally:
    """Sums over the launches of one check (a Workload) on one GPU.

    checks: number of comparisons. operations, verified_bytes: floating-point operations and bytes whose results were
    compared. measured_s: seconds of measurement. mismatches: also those of launches without a valid result. method: how
    outputs were compared. covered: tested share of the memory; None without a memory test.
    """

    launches: int = 0
    checks: int = 0
    operations: float = 0.0
    verified_bytes: int = 0
    measured_s: float = 0.0
    mismatches: int = 0
    method: str = ""
    covered: Covered | None = None


@dataclass(frozen=True)
class Wrong:
    """A mismatch that counts against a GPU. round: from 0. at: when it was found, ISO 8601 in UTC.

    doubt: why another device may be at fault; "" if this GPU is.
    """

    workload: Workload
    precision: str
    round: int
    at: str
    mismatch: Mismatch
    doubt: str = ""


@dataclass(frozen=True)
class Planned:
    """A planned cell of a GPU. name: by `cell_name`. checks: number of comparisons that its launches made.

    why: reason if there are none; "" if unknown. impossible: the software cannot verify it on this GPU. untried: it has
    no result, although it did not fail.
    """

    workload: Workload
    name: str
    checks: int
    why: str = ""
    impossible: bool = False  # the software cannot verify here: excused if other cells of the check were verified
    untried: bool = False


@dataclass(frozen=True)
class Idle:
    """An unexplained gap in the work of a GPU. at: its begin, ISO 8601, UTC. seconds: its unexplained length."""

    at: str
    seconds: float


@dataclass(frozen=True)
class Ahead:
    """Ways to complete an incomplete burn-in: `resume`, or a new burn-in.

    left_s: seconds that `resume` may still use, 0 or less if none. launch_s: expected seconds of another launch. least:
    value and options of --burn-in for a new one with enough time for a whole round: "2h --level full".
    """

    left_s: float
    launch_s: float
    least: str


@dataclass(frozen=True)
class Work:
    """All facts of one GPU after a burn-in, for its verdict. Texts are "" if there is nothing to report.

    served_s: seconds at work that count towards requested_s. cell_s: expected seconds of work of its longest cell.
    ahead: ways to add missing work. tallies: check → sums over its launches. planned: its cells. idle: gaps without a
    known reason. beside: other processes on the GPU, one text for each launch that they contaminated. wrong: mismatches
    with details. unclear: number of mismatches without details that may be its own. unread: launches whose mismatches
    cannot be read. deviations: its launches with unexpected bits. undecided: cells whose right bits are unknown,
    because rounds or GPUs differ without a majority. failures: failed launches that were not repeated with a result,
    and skipped cells; repeated: failed launches that were. lost_results: launches whose lost result was not measured
    again. health: verdict of its health signals. health_reason, health_action: why, and what to do about it if the
    verdict is FAIL. quarantined: why the GPU was quarantined. paces: kind of rate → verdict. not_tested: check →
    reason. lost_time: longest time that did not count, and why. goes_on: the run still runs. interrupted: why it ended
    early. too_hot: why the GPU was too hot to continue, and when. reboots: number of reboots between the run's
    sessions. tainted: faults were injected on purpose.
    """

    requested_s: float
    served_s: float
    cell_s: float
    ahead: Ahead
    tallies: Mapping[Workload, Tally]
    planned: tuple[Planned, ...]
    idle: tuple[Idle, ...] = ()
    beside: tuple[str, ...] = ()
    wrong: tuple[Wrong, ...] = ()
    unclear: int = 0
    unread: tuple[str, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    undecided: tuple[str, ...] = ()  # cells in which GPUs disagree
    failures: tuple[str, ...] = ()
    lost_results: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    health: HealthVerdict = HealthVerdict.NOT_APPLICABLE
    health_reason: str = ""
    health_action: Action = Action.NOTHING
    paces: Mapping[str, RateVerdict] = field(default_factory=dict)
    not_tested: Mapping[str, str] = field(default_factory=dict)
    lost_time: str = ""
    goes_on: bool = False
    interrupted: str = ""
    quarantined: str = ""
    too_hot: str = ""
    reboots: int = 0
    tainted: bool = False

    @property
    def mismatches(self) -> int:
        """Number of all mismatches of this GPU, with or without details, `unclear` ones included."""
        return sum(tally.mismatches for tally in self.tallies.values())
