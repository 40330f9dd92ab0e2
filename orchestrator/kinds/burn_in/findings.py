"""What is known of one GPU after a burn-in, as types: merge/ fills them, verdict.py judges."""

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


def named(cell: Cell) -> str:
    """A cell in words, the same on all GPUs."""
    return f"{WORKLOADS[cell.workload].title} of {cell.model} in {cell.precision}"


@dataclass(frozen=True)
class RateVerdict:
    """What one kind of rates says, and how. why: of a GPU that is slower, what probably made it so; None: not known.

    courses: how its rates went over time, by what they were held against. aside: of which work nothing is said, and
    why; it ends the words too.
    """

    pace: Pace
    words: str
    why: Why | None = None
    aside: str = ""
    courses: Mapping[str, Course] = field(default_factory=dict)


@dataclass(frozen=True)
class Tally:
    """What one kind of check did on one GPU. operations, verified_bytes: that were compared; measured_s: at work.

    method: how outputs were compared, in words. covered: by the test of memory; None where no launch says so.
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
    """A mismatch that a launch found in its own work, whether it has a result that counts or not.

    doubt: why it may be no fault of this GPU; empty where it is one for sure.
    """

    workload: Workload
    precision: str
    round: int
    at: str
    mismatch: Mismatch
    doubt: str = ""


@dataclass(frozen=True)
class Planned:
    """A cell that was planned for a GPU, as `named` has it, and how many checks all of its launches made.

    why: there are none, as far as that is known. impossible: its launches came to an end, and say that the software
    cannot verify it here; that is no gap where other cells of its kind were verified, but told as not tested.
    untried: it lacked nothing but time.
    """

    workload: Workload
    name: str
    checks: int
    why: str = ""
    impossible: bool = False
    untried: bool = False


@dataclass(frozen=True)
class Idle:
    """A gap in the work of a GPU that nothing explains: since when, by the calendar, and for how long."""

    at: str
    seconds: float


@dataclass(frozen=True)
class Ahead:
    """What can be done about a night that lacks something. left_s: of its time, that `resume` would have for launches.

    launch_s: what one took, its start included. least: how long a new burn-in must be, as the command line has it.
    """

    left_s: float
    launch_s: float
    least: str


@dataclass(frozen=True)
class Work:
    """Everything that is known of one GPU after the night.

    asked_s, served_s: seconds asked for, and that it was at work (kinds/burn_in/served_time.py). cell_s: of the longest
    launch. ahead: what makes up for what it lacks. idle: when it was not at work, for long. planned: its cells. beside:
    who else computed on it, for each launch beside others.
    wrong: mismatches that were kept. unclear: how many more may be its own, or follow from what others had wrong.
    unread: launches of which nobody can see whether they found anything wrong, and why, in words.
    deviations: of its launches from the majority. undecided: cells in which GPUs disagree without one, in words.
    failures: launches without a result, in words; without_file: those that had one, which is lost; made_up: those that
    another one of the same round made up for, but that are a finding all the same. paces: kind of rate → what it says.
    not_tested: what → why. lost_time: when it was not at work, and why, in words. goes_on: somebody works on the run.
    interrupted: why the run ended early, and when, or empty. taken_out, too_hot: why the GPU was, or empty.
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
        """All of them, the details of which were kept or not."""
        return sum(tally.mismatches for tally in self.tallies.values())
