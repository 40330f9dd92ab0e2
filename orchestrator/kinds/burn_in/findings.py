"""Facts of one GPU after a burn-in, as types: collected by analysis.py, judged by verdict.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures.burn_in import Pace
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.bit_comparison import Deviation
from orchestrator.kinds.burn_in.memory_test import Covered
from orchestrator.stats.drift import Course
from orchestrator.stats.slowdown_reasons import Why
from protocol.cell import Cell, Workload
from protocol.verification import Mismatch


def cell_name(cell: Cell) -> str:
    """Return the name of a cell, the same on all GPUs."""
    return f"{WORKLOADS[cell.workload].title} of {cell.model} in {cell.precision}"


@dataclass(frozen=True)
class RateVerdict:
    """Verdict on one kind of rate. aside: which work was not judged, and why; also part of words."""

    pace: Pace
    words: str
    why: Why | None = None
    aside: str = ""
    courses: Mapping[str, Course] = field(default_factory=dict)


@dataclass(frozen=True)
class Tally:
    """Sums of one kind of check on one GPU. operations, verified_bytes: compared ones."""

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
    """A mismatch found by a launch. doubt: why it may be no fault of this GPU, or ""."""

    workload: Workload
    precision: str
    round: int
    at: str
    mismatch: Mismatch
    doubt: str = ""


@dataclass(frozen=True)
class Planned:
    """A planned cell of a GPU and its number of checks. why: there are none. untried: it lacked only time.

    impossible: the software cannot verify here, which is excused if other cells of the check were verified.
    """

    workload: Workload
    name: str
    checks: int
    why: str = ""
    impossible: bool = False
    untried: bool = False


@dataclass(frozen=True)
class Idle:
    """An unexplained gap in the work of a GPU."""

    at: str
    seconds: float


@dataclass(frozen=True)
class Ahead:
    """What completes a burn-in: `resume` for left_s, with launches of launch_s, or a new one with options `least`."""

    left_s: float
    launch_s: float
    least: str


@dataclass(frozen=True)
class Work:
    """All facts of one GPU after a burn-in. Texts are empty where there is nothing to say.

    asked_s, served_s: seconds requested and at work. cell_s: the longest launch. unread: mismatches cannot be read.
    unclear: mismatches without details that may be its own. undecided: cells in which GPUs disagree.
    beside: other processes on the GPU, one text per contaminated launch. not_tested: check → reason.
    """

    asked_s: float
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
    undecided: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    without_file: tuple[str, ...] = ()
    made_up: tuple[str, ...] = ()
    health: HealthVerdict = HealthVerdict.NOT_APPLICABLE
    health_reason: str = ""
    paces: Mapping[str, RateVerdict] = field(default_factory=dict)
    not_tested: Mapping[str, str] = field(default_factory=dict)
    lost_time: str = ""
    goes_on: bool = False
    interrupted: str = ""
    taken_out: str = ""
    too_hot: str = ""
    reboots: int = 0
    tainted: bool = False

    @property
    def mismatches(self) -> int:
        """All mismatches, with details or without."""
        return sum(tally.mismatches for tally in self.tallies.values())
