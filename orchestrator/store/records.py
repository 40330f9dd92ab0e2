"""What the journal holds: one record for each thing that must not be forgotten, in the order it happened.

    Header                          once, when the run is made
    Segment                         each time a process begins to work on the run (the first time, and each resume)
    ZygoteStarted                   what the shared start-up cost
    Start  Spawned  End  Left       an attempt: intended, running, over, its process gone
    Beside                          somebody else computed on the GPU of an attempt, and was allowed to
    Foreign                         somebody else came to a GPU, or left it
    ClockSet                        the host's time of day has jumped
    StoodStill                      the orchestrator itself did not go on for a while
    TelemetryEnded                  nobody looks at the GPUs any more
    TooHot                          a GPU whose load was ended for its heat
    TakenOut                        a device that cannot be used any more
    Skipped                         a model that is not run any more
    Added                           launches beyond the plan, because a GPU is SUSPECT or a burn-in has time left
    Dropped                         a launch, planned or added, for which there was no time
    StopAsked                       a person wants the run to end: nothing new begins
    Finished                        no more work, or stopped on request

An End that names a result is written after that result is safely on disk. A Start without an End is an attempt that
was interrupted.
"""

import msgspec

from orchestrator.plan.batch_scan import Figures
from protocol.failure import Failure


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """A record: a map whose "type" is the class's name. Wall times are seconds since the epoch."""


class Header(_Record, frozen=True, kw_only=True):
    """Which run this is. `plan_hash` is that of the plan in plan.json; another plan is not resumed."""

    run_id: str
    plan_hash: str
    tool_version: str
    created: float
    hostname: str
    devices: tuple[str, ...]


class Segment(_Record, frozen=True, kw_only=True):
    """A process takes the run over. wall and monotonic_ns, read together, place monotonic times on the calendar.

    settings: environment variables that change what is measured, as they were set (gpu/environment.py). served_s: what
    a burn-in had served before of the time that was asked for (kinds/burn_in/busy_time.py).
    """

    boot_id: str
    driver_version: str | None
    tool_version: str
    pid: int
    wall: float
    monotonic_ns: int
    settings: tuple[tuple[str, str], ...] = ()
    served_s: float = 0.0

    def at(self, monotonic_ns: int) -> float:
        """A moment of it, in seconds since the epoch."""
        return self.wall + (monotonic_ns - self.monotonic_ns) / 1e9


class ZygoteStarted(_Record, frozen=True, kw_only=True):
    """The zygote is ready. start_ms: from its process's start to Ready; failed: module → error of the import."""

    start_ms: float
    failed: dict[str, str]


class Start(_Record, frozen=True, kw_only=True):
    """An attempt is about to be made. `attempt` counts from 1 within the cell, over all its rounds."""

    launch: int
    cell: str
    round: int
    attempt: int
    batch_size: int
    device: str
    at_ns: int


class Spawned(_Record, frozen=True, kw_only=True):
    """The attempt's process. start_ticks (field 22 of /proc/PID/stat) tells it from a later one of the same number."""

    launch: int
    pid: int
    start_ticks: int


class End(_Record, frozen=True, kw_only=True):
    """An attempt is over, with a result or a failure, never both. result_sha256: of result.msgpack, which was written
    and synced by at_ns.

    figures: of a result that is a step of a scan for the batch size, so that the journal alone says how far it is.
    """

    launch: int
    at_ns: int
    result_sha256: str | None = None
    figures: Figures | None = None
    failure: Failure | None = None


class Left(_Record, frozen=True, kw_only=True):
    """The process of an attempt is gone and its device free again. Follows End, and may be missing.

    Of several processes it is the one that left last. exit_code, signal: how it ended, exactly one of them set; neither
    where it cannot be killed. teardown_ms: from the End's at_ns, where there was one, to the device free again.
    """

    launch: int
    exit_code: int | None
    signal: int | None
    teardown_ms: float


class Beside(_Record, frozen=True, kw_only=True):
    """The result of an attempt counts though `by` computed on its GPU too: the user has allowed that."""

    launch: int
    at_ns: int
    by: str


class Foreign(_Record, frozen=True, kw_only=True):
    """From then on `by` computes on a GPU; empty for nobody. What was measured beside it is told from this by resume,
    where the process that would have taken the result back was killed before it could.
    """

    device: str
    at_ns: int
    by: str


class ClockSet(_Record, frozen=True, kw_only=True):
    """The time of day is another by `by_s` seconds than the monotonic clock says; `wall` is the new one."""

    at_ns: int
    wall: float
    by_s: float


class StoodStill(_Record, frozen=True, kw_only=True):
    """Until at_ns the process that works on the run did not go on for `seconds`: it was stopped, or its machine paused.

    No deadline went on meanwhile.
    """

    at_ns: int
    seconds: float


class TelemetryEnded(_Record, frozen=True, kw_only=True):
    """The telemetry process is gone, or answers no more: nobody relies on it in the rest of this segment."""

    at_ns: int


class TooHot(_Record, frozen=True, kw_only=True):
    """The load of a GPU was ended for its heat: its limit, and how hot it was, are in `reason`."""

    device: str
    at_ns: int
    reason: str


class TakenOut(_Record, frozen=True, kw_only=True):
    """A device is not used any more, until somebody resumes the run."""

    device: str
    at_ns: int
    reason: str


class Skipped(_Record, frozen=True, kw_only=True):
    """Nothing more of a model is launched, for `reason`. It follows from the ends before it; reports read it here.

    only: in which work, or at which size, it is not, empty for all.
    """

    model: str
    only: str = ""
    at_ns: int
    reason: str


class Added(_Record, frozen=True, kw_only=True):
    """More launches of planned cells, (id of the cell, round) each: because GPUs are SUSPECT
    (state/added_launches.py), or as another round of a burn-in that has time left (kinds/burn_in/more_rounds.py).

    slots: in the order in which each device makes its own. suspects: the GPUs in doubt, none in a burn-in.
    """

    slots: tuple[tuple[str, int], ...]
    suspects: tuple[str, ...]
    at_ns: int


class Dropped(_Record, frozen=True, kw_only=True):
    """A launch is not made, for `reason`: the run has a time limit."""

    cell: str
    round: int
    at_ns: int
    reason: str


class StopAsked(_Record, frozen=True, kw_only=True):
    """Somebody asked the process to stop, with `stop`, Ctrl-C or SIGTERM: it begins nothing new.

    The second of a segment: it was asked once more, and ends what runs at once.
    """

    at_ns: int


class Finished(_Record, frozen=True, kw_only=True):
    """The process leaves the run.

    interrupted: launches of the plan were left over, for `reason`. broken: gpubench itself could not go on.
    """

    at_ns: int
    interrupted: bool
    reason: str = ""
    broken: bool = False


Record = (
    Header
    | Segment
    | ZygoteStarted
    | Start
    | Spawned
    | End
    | Left
    | Beside
    | Foreign
    | ClockSet
    | StoodStill
    | TelemetryEnded
    | TooHot
    | TakenOut
    | Skipped
    | Added
    | Dropped
    | StopAsked
    | Finished
)
