"""Records of the journal, in the order in which they happen.

    Header                          once, when the run is made
    Segment                         a session: a process starts to work on the run (at first, and at each resume)
    ZygoteStarted                   the cost of the shared start-up
    Start  Spawned  End  Left       an attempt (launch, one measurement): intended, running, over, its process gone
    Beside                          another process computed on the GPU of an attempt, which was allowed
    Foreign                         another process came to a GPU, or left it
    ClockSet                        the host's time of day jumped
    Suspension                      the orchestrator was suspended
    TelemetryEnded                  no more readings of the GPUs
    TooHot                          a GPU whose load was ended for its temperature
    Quarantine                      a quarantined device
    Skipped                         a skipped model
    Added                           launches beyond the plan: a verdict is in doubt, or a burn-in has time left
    Dropped                         a planned or added launch without time for it
    StopRequest                     a person requested a stop
    Finished                        no more work, or stopped on request

An End with a result follows the sync of the result's file. A Start without an End is a running or interrupted attempt.
"""

import msgspec

from orchestrator.plan.batch_scan import Figures
from protocol.failure import Failure


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """A record, stored as a map whose "type" is the name of the class.

    at_ns: monotonic nanoseconds. wall, created: seconds since the epoch. device: UUID.
    """


class Header(_Record, frozen=True, kw_only=True):
    """The identity of the run. created: seconds since the epoch. devices: UUIDs.

    plan_hash, config_hash: first 16 hexadecimal digits of the SHA-256 of plan and run.yaml. tool_version: of gpubench.
    """

    run_id: str
    plan_hash: str
    config_hash: str = ""
    tool_version: str
    created: float
    hostname: str
    devices: tuple[str, ...]


class Segment(_Record, frozen=True, kw_only=True):
    """A session begins: a process starts to work on the run.

    wall (seconds since the epoch) and monotonic_ns: the same moment on both clocks. boot_id: the kernel's id of the
    current boot, empty if unknown. driver_version: None if unknown or without GPUs. tool_version: of gpubench.
    settings: environment variables that affect results, as (name, value). served_s: served time (work and short gaps)
    of a burn-in in earlier sessions, on the device with the least; 0 in other runs.
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
        """Return the seconds since the epoch of a monotonic time (ns) in this session. A later ClockSet is ignored."""
        return self.wall + (monotonic_ns - self.monotonic_ns) / 1e9


class ZygoteStarted(_Record, frozen=True, kw_only=True):
    """The zygote is ready. start_ms: milliseconds that its start took. failed: module → error of its import."""

    start_ms: float
    failed: dict[str, str]


class Start(_Record, frozen=True, kw_only=True):
    """An attempt begins. launch: its number in the run. attempt: its number, from 1, at this cell in all rounds.

    cell: id of the planned cell. batch_size: of this attempt. device: UUID of its first device. at_ns: monotonic.
    """

    launch: int
    cell: str
    round: int
    attempt: int
    batch_size: int
    device: str
    at_ns: int


class Spawned(_Record, frozen=True, kw_only=True):
    """The attempt's process exists. start_ticks: its start in clock ticks since boot (/proc/PID/stat); 0: unknown."""

    launch: int
    pid: int
    start_ticks: int


class End(_Record, frozen=True, kw_only=True):
    """An attempt has ended, with a result or a failure. A second End with a failure withdraws the result.

    at_ns: monotonic. result_sha256: hex hash of the file result.msgpack, which is on disk before this record; None for
    a failure. figures: memory and throughput, only in a search for the batch size.
    """

    launch: int
    at_ns: int
    result_sha256: str | None = None
    figures: Figures | None = None
    failure: Failure | None = None


class Left(_Record, frozen=True, kw_only=True):
    """The process of an attempt is gone, or cannot be killed. Its device may be unusable. Follows End; may be missing.

    exit_code, signal: one of them says how the process ended; both are None if it cannot be killed or never existed.
    teardown_ms: time since the End.
    """

    launch: int
    exit_code: int | None
    signal: int | None
    teardown_ms: float


class Beside(_Record, frozen=True, kw_only=True):
    """The result of an attempt counts although another process used its GPU (--allow-busy).

    by: that process, such as "PID 4711 python, 3.2 GiB". at_ns: monotonic time of this record.
    """

    launch: int
    at_ns: int
    by: str


class Foreign(_Record, frozen=True, kw_only=True):
    """From at_ns (monotonic) on, another process computes on a GPU, or none does any more.

    by: the other process, such as "PID 4711 python, 3.2 GiB"; "" if there is none any more.
    """

    device: str
    at_ns: int
    by: str


class ClockSet(_Record, frozen=True, kw_only=True):
    """The host's time of day jumped by `by_s` seconds, to `wall` (seconds since the epoch). at_ns: monotonic."""

    at_ns: int
    wall: float
    by_s: float


class Suspension(_Record, frozen=True, kw_only=True):
    """The orchestrator was suspended for `seconds` until at_ns (monotonic). Deadlines were extended by that time."""

    at_ns: int
    seconds: float


class TelemetryEnded(_Record, frozen=True, kw_only=True):
    """The telemetry process is gone or does not answer from at_ns (monotonic) on, until the next resume."""

    at_ns: int


class TooHot(_Record, frozen=True, kw_only=True):
    """A GPU was too hot: it is quarantined, and its launch is ended. reason: text with limit and temperature.

    at_ns: monotonic.
    """

    device: str
    at_ns: int
    reason: str


class Quarantine(_Record, frozen=True, kw_only=True):
    """A device is quarantined until the next resume. A burn-in keeps it quarantined then, unless all devices are.

    at_ns: monotonic. reason: text for the report.
    """

    device: str
    at_ns: int
    reason: str


class Skipped(_Record, frozen=True, kw_only=True):
    """No more launches of a model or of a part of it are made, because of earlier failures.

    only: the part in words, such as "training fp16 at batch size 8"; empty: the whole model. at_ns: monotonic.
    reason: text for the report.
    """

    model: str
    only: str = ""
    at_ns: int
    reason: str


class Added(_Record, frozen=True, kw_only=True):
    """Launches of planned cells are added at the ends of the queues, each as (cell id, round), in this order.

    suspects: UUIDs of the devices whose verdict is in doubt, which is the reason; empty for another round of a burn-in.
    at_ns: monotonic.
    """

    slots: tuple[tuple[str, int], ...]
    suspects: tuple[str, ...]
    at_ns: int


class Dropped(_Record, frozen=True, kw_only=True):
    """A planned or added launch will not be made, for lack of time.

    cell: id of the planned cell. at_ns: monotonic. reason: text for the report.
    """

    cell: str
    round: int
    at_ns: int
    reason: str


class StopRequest(_Record, frozen=True, kw_only=True):
    """A person requested a stop, by `stop`, Ctrl-C or SIGTERM. A second record kills running launches at once.

    at_ns: monotonic.
    """

    at_ns: int


class Finished(_Record, frozen=True, kw_only=True):
    """The process ends its work. interrupted: work remains, for this `reason`. broken: gpubench could not continue.

    at_ns: monotonic.
    """

    at_ns: int
    interrupted: bool
    reason: str = ""
    broken: bool = False


_OfAttempt = Start | Spawned | End | Left | Beside
_OfMachine = ZygoteStarted | Foreign | ClockSet | Suspension | TelemetryEnded | TooHot
_OfPlan = Quarantine | Skipped | Added | Dropped | StopRequest
Record = Header | Segment | _OfAttempt | _OfMachine | _OfPlan | Finished
