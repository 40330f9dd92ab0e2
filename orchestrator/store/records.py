"""Records of the journal, in the order in which they happen.

    Header                          once, when the run is made
    Segment                         a process starts to work on the run (at first, and at each resume)
    ZygoteStarted                   the cost of the shared start-up
    Start  Spawned  End  Left       an attempt: intended, running, over, its process gone
    Beside                          another process computed on the GPU of an attempt, which was allowed
    Foreign                         another process came to a GPU, or left it
    ClockSet                        the host's time of day jumped
    StoodStill                      the orchestrator was suspended
    TelemetryEnded                  no more readings of the GPUs
    TooHot                          a GPU whose load was ended for its temperature
    TakenOut                        a quarantined device
    Skipped                         a skipped model
    Added                           launches beyond the plan: a GPU is SUSPECT, or a burn-in has time left
    Dropped                         a planned or added launch without time for it
    StopAsked                       a person requested a stop
    Finished                        no more work, or stopped on request

An End with a result follows that result's sync. A Start without an End is an interrupted attempt.
"""

import msgspec

from orchestrator.plan.batch_scan import Figures
from protocol.failure import Failure


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """A map whose "type" is the class's name. Wall times are seconds since the epoch."""


class Header(_Record, frozen=True, kw_only=True):
    """Identity of the run. Hashes: beginnings of the SHA-256 of plan.json and run.yaml.

    config_hash: empty in runs of earlier versions.
    """

    run_id: str
    plan_hash: str
    config_hash: str = ""
    tool_version: str
    created: float
    hostname: str
    devices: tuple[str, ...]


class Segment(_Record, frozen=True, kw_only=True):
    """A session begins. wall and monotonic_ns are read together and convert monotonic times.

    settings: environment variables with an effect (gpu/environment.py). served_s: seconds that a burn-in had served.
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
        """Convert a monotonic time to seconds since the epoch."""
        return self.wall + (monotonic_ns - self.monotonic_ns) / 1e9


class ZygoteStarted(_Record, frozen=True, kw_only=True):
    """The zygote is ready. start_ms: from its start to Ready. failed: module → error of the import."""

    start_ms: float
    failed: dict[str, str]


class Start(_Record, frozen=True, kw_only=True):
    """An attempt begins. attempt: from 1 within the cell, over all rounds."""

    launch: int
    cell: str
    round: int
    attempt: int
    batch_size: int
    device: str
    at_ns: int


class Spawned(_Record, frozen=True, kw_only=True):
    """The attempt's process. start_ticks: field 22 of /proc/PID/stat."""

    launch: int
    pid: int
    start_ticks: int


class End(_Record, frozen=True, kw_only=True):
    """An attempt is over. result_sha256: of result.msgpack, synced by at_ns. figures: of a batch scan."""

    launch: int
    at_ns: int
    result_sha256: str | None = None
    figures: Figures | None = None
    failure: Failure | None = None


class Left(_Record, frozen=True, kw_only=True):
    """The process of an attempt is gone and its device free. Follows End, may be missing.

    Exactly one of exit_code and signal is set; neither if it cannot be killed. teardown_ms: from the End's at_ns.
    """

    launch: int
    exit_code: int | None
    signal: int | None
    teardown_ms: float


class Beside(_Record, frozen=True, kw_only=True):
    """The result of an attempt counts although the process `by` computed on its GPU: --allow-busy was given."""

    launch: int
    at_ns: int
    by: str


class Foreign(_Record, frozen=True, kw_only=True):
    """From now on the process `by` computes on a GPU; empty: none."""

    device: str
    at_ns: int
    by: str


class ClockSet(_Record, frozen=True, kw_only=True):
    """The time of day jumped by `by_s` seconds against the monotonic clock, to `wall`."""

    at_ns: int
    wall: float
    by_s: float


class StoodStill(_Record, frozen=True, kw_only=True):
    """The orchestrator was suspended for `seconds` until at_ns. Deadlines were paused."""

    at_ns: int
    seconds: float


class TelemetryEnded(_Record, frozen=True, kw_only=True):
    """The telemetry process is gone or does not answer, for the rest of this segment."""

    at_ns: int


class TooHot(_Record, frozen=True, kw_only=True):
    """The load of a GPU was ended for its temperature. reason: with limit and temperature."""

    device: str
    at_ns: int
    reason: str


class TakenOut(_Record, frozen=True, kw_only=True):
    """A device is quarantined until a resume."""

    device: str
    at_ns: int
    reason: str


class Skipped(_Record, frozen=True, kw_only=True):
    """No more launches of a model. Follows from earlier Ends. only: workload or size, empty for all."""

    model: str
    only: str = ""
    at_ns: int
    reason: str


class Added(_Record, frozen=True, kw_only=True):
    """More launches of planned cells, (cell id, round) each, in each device's order.

    For SUSPECT GPUs (state/added_launches.py), or another round of a burn-in (kinds/burn_in/more_rounds.py).
    """

    slots: tuple[tuple[str, int], ...]
    suspects: tuple[str, ...]
    at_ns: int


class Dropped(_Record, frozen=True, kw_only=True):
    """A launch is not made for lack of time."""

    cell: str
    round: int
    at_ns: int
    reason: str


class StopAsked(_Record, frozen=True, kw_only=True):
    """`stop`, Ctrl-C or SIGTERM: nothing new begins. The second in a segment ends running launches."""

    at_ns: int


class Finished(_Record, frozen=True, kw_only=True):
    """The session ends. interrupted: launches remain, for `reason`. broken: gpubench itself failed."""

    at_ns: int
    interrupted: bool
    reason: str = ""
    broken: bool = False


_OfAttempt = Start | Spawned | End | Left | Beside
_OfMachine = ZygoteStarted | Foreign | ClockSet | StoodStill | TelemetryEnded | TooHot
_OfPlan = TakenOut | Skipped | Added | Dropped | StopAsked
Record = Header | Segment | _OfAttempt | _OfMachine | _OfPlan | Finished
