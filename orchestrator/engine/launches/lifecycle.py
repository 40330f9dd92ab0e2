"""The life of one process of a launch (measurement), from the request to its end. Pure.

    REQUESTED ──Born──▶ BORN ──Greeted──▶ WORKING ──Reported──▶ REPORTED ──Died──▶ OVER
        │                 │                  │ deadline, stop        │ deadline, stop
        │NotBorn          │Died              ▼                       │
        ▼                 ▼               ENDING (SIGTERM) ◀─────────┘
      OVER             DRAINING              └──grace──▶ KILLED (SIGKILL) ──60 s──▶ OVER (unkillable)
                          └──1 s or Reported──▶ OVER

A CUDA or connection failure is held back, WORKING ──Reported──▶ HELD ──1 s, stop──▶ REPORTED, because its cause (from
the driver, or the death of another process of the launch) may be seen just after it.
"""

import enum
from typing import Final

import msgspec

from orchestrator.state.failure_policy import Trait, has_trait
from orchestrator.system.process_end import Exit
from protocol.failure import Category, Failure, Phase
from protocol.messages import Deadlines, Measurement
from protocol.result import Result

DRAIN_S: Final = 1.0
"""Seconds to wait for the last message of a dead process. In 4 of 600 launches it came after the death was noticed."""
UNKILLABLE_S: Final = 60.0
TERM_GRACE_S: Final = 10.0


class Status(enum.Enum):
    """State of a process of a launch. The diagram at the top of this module shows their order.

    HELD: it reported a failure whose cause may be seen soon. DRAINING: it is gone, and its last message may still come.
    """

    REQUESTED = enum.auto()
    BORN = enum.auto()
    WORKING = enum.auto()
    HELD = enum.auto()
    REPORTED = enum.auto()
    ENDING = enum.auto()
    KILLED = enum.auto()
    DRAINING = enum.auto()
    OVER = enum.auto()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one process of a launch. cause: why the orchestrator ends the process, if it does.

    deadline: when its phase or its status takes too long, in seconds of the loop's clock. deadlines, measurement: set
    how long each phase may take. fraction: part of the phase that is done, 0 to 1. held: failure that is held back
    until its cause may be known. has_outcome: whether a Conclude was returned. exit: None until the process is gone.
    """

    deadlines: Deadlines
    measurement: Measurement
    status: Status = Status.REQUESTED
    phase: Phase = Phase.START
    fraction: float = 0.0
    deadline: float
    cause: Failure | None = None
    held: Failure | None = None
    has_outcome: bool = False
    exit: Exit | None = None


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Born(msgspec.Struct, frozen=True):
    """Event: the process exists, so its PID is known. The worker has not connected yet."""


class NotBorn(msgspec.Struct, frozen=True):
    """Event: the process could not be made and will never exist."""

    failure: Failure


class Greeted(msgspec.Struct, frozen=True):
    """Event: the worker has connected. Its first message, Hello, is valid."""


class Entered(msgspec.Struct, frozen=True):
    """Event: the worker began a phase."""

    phase: Phase


class Progressed(msgspec.Struct, frozen=True):
    """Event: the worker reported the share of its phase that is done, 0 to 1."""

    fraction: float


class Reported(msgspec.Struct, frozen=True):
    """Event: the worker reported its outcome."""

    outcome: Result | Failure


class Died(msgspec.Struct, frozen=True):
    """Event: the process is gone. exit: without code and signal if nobody could reap it."""

    exit: Exit


class TimePassed(msgspec.Struct, frozen=True):
    """Event: time has passed, so the deadline must be checked."""


class Stop(msgspec.Struct, frozen=True):
    """Event: the process is to be ended because of `failure`, whose phase is replaced by that of the process.

    now: send SIGKILL at once, without SIGTERM. grace_s: seconds between SIGTERM and SIGKILL.
    """

    failure: Failure
    now: bool = False
    grace_s: float = TERM_GRACE_S


Event = Born | NotBorn | Greeted | Entered | Progressed | Reported | Died | TimePassed | Stop


# ── actions ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Assign(msgspec.Struct, frozen=True):
    """Action: send the worker its assignment (what to measure)."""


class Conclude(msgspec.Struct, frozen=True):
    """Action: note the outcome of the process, once. None: it reported none, so derive a failure from its exit."""

    outcome: Result | Failure | None


class Terminate(msgspec.Struct, frozen=True):
    """Action: send SIGTERM to the process, then SIGCONT in case it is stopped."""


class Kill(msgspec.Struct, frozen=True):
    """Action: send SIGKILL to the process group."""


class Forget(msgspec.Struct, frozen=True):
    """Action: stop following the process. It is gone or not made yet, or SIGKILL cannot end it (unkillable)."""

    unkillable: bool = False


Action = Assign | Conclude | Terminate | Kill | Forget


def requested(deadlines: Deadlines, measurement: Measurement, now: float) -> Launch:
    """Return the state of a process that was just requested. now: seconds of the loop's clock."""
    return Launch(
        deadlines=deadlines,
        measurement=measurement,
        deadline=now + deadlines.allowance(Phase.START, measurement),
    )


def advance(launch: Launch, event: Event, now: float) -> tuple[Launch, tuple[Action, ...]]:
    """Return the state of the process after an event, and the actions to take, in order. now: loop's clock (s).

    An event that is impossible in the current status changes nothing.
    """
    match event:
        case Born() if launch.status is Status.REQUESTED:
            return _with(launch, status=Status.BORN), ()
        case NotBorn(failure) if launch.status is Status.REQUESTED:
            return _ended(launch, failure)
        case Greeted() if launch.status is Status.BORN:
            return _with(launch, status=Status.WORKING), (Assign(),)
        case Entered(phase) if launch.status is Status.WORKING:
            deadline = now + launch.deadlines.allowance(phase, launch.measurement)
            return _with(launch, phase=phase, fraction=0.0, deadline=deadline), ()
        case Entered(phase) if launch.status is Status.DRAINING:
            return _with(launch, phase=phase), ()
        case Progressed(fraction) if launch.status is Status.WORKING:
            return _progressed(launch, fraction, now)
        case Reported(outcome):
            return _reported(launch, outcome, now)
        case Died(exit_):
            return _died(launch, exit_, now)
        case Stop(failure, immediately, grace_s):
            return _stop(launch, failure, now, immediately=immediately, grace_s=grace_s)
        case TimePassed() if now >= launch.deadline:
            return _late(launch, now)
        case _:
            return launch, ()


def _progressed(launch: Launch, fraction: float, now: float) -> tuple[Launch, tuple[Action, ...]]:
    deadline = launch.deadline
    if launch.measurement.fixed(launch.phase):
        deadline = now + launch.deadlines.allowance(launch.phase, launch.measurement)
    return _with(launch, fraction=fraction, deadline=deadline), ()


def _reported(launch: Launch, outcome: Result | Failure, now: float) -> tuple[Launch, tuple[Action, ...]]:
    doubtful = isinstance(outcome, Failure) and has_trait(outcome.category, Trait.HELD_BACK)
    match launch.status:
        case Status.WORKING if doubtful:
            return _with(launch, status=Status.HELD, held=outcome, deadline=now + DRAIN_S), ()
        case Status.WORKING:
            return _concluded_with(launch, outcome, now)
        case Status.DRAINING if doubtful:
            return _with(launch, held=launch.held or outcome), ()
        case Status.DRAINING if launch.held is None:
            return _with(launch, status=Status.OVER, has_outcome=True), (Conclude(outcome), Forget())
        case _:
            return launch, ()


def _concluded_with(launch: Launch, outcome: Result | Failure | None, now: float) -> tuple[Launch, tuple[Action, ...]]:
    until = now + launch.deadlines.allowance(Phase.FINISH, launch.measurement)
    launch = _with(launch, status=Status.REPORTED, phase=Phase.FINISH, deadline=until, has_outcome=True)
    return launch, (Conclude(outcome),)


def _died(launch: Launch, exit_: Exit, now: float) -> tuple[Launch, tuple[Action, ...]]:
    launch = _with(launch, exit=exit_)
    match launch.status:
        case Status.REPORTED:
            return _with(launch, status=Status.OVER), (Forget(),)
        case Status.ENDING | Status.KILLED:
            return _ended(launch, launch.cause)
        case Status.REQUESTED | Status.BORN | Status.WORKING | Status.HELD:
            return _with(launch, status=Status.DRAINING, deadline=now + DRAIN_S), ()
        case _:
            return launch, ()


def _stop(
    launch: Launch, failure: Failure, now: float, *, immediately: bool, grace_s: float
) -> tuple[Launch, tuple[Action, ...]]:
    failure = msgspec.structs.replace(failure, phase=launch.phase)  # the caller does not know the phase
    match launch.status:
        case Status.REQUESTED:
            return _ended(launch, failure)
        case Status.HELD:  # its own failure came first
            launch, concluded = _concluded_with(launch, launch.held, now)
            launch, actions = _stop(launch, failure, now, immediately=immediately, grace_s=grace_s)
            return launch, concluded + actions
        case Status.BORN | Status.WORKING | Status.REPORTED if not immediately:
            return _with(launch, status=Status.ENDING, cause=failure, deadline=now + grace_s), (Terminate(),)
        case Status.BORN | Status.WORKING | Status.REPORTED | Status.ENDING:
            cause = launch.cause or failure
            return _with(launch, status=Status.KILLED, cause=cause, deadline=now + UNKILLABLE_S), (Kill(),)
        case _:
            return launch, ()


def _late(launch: Launch, now: float) -> tuple[Launch, tuple[Action, ...]]:
    match launch.status:
        case Status.REQUESTED:
            return _ended(launch, _deadline_failure(launch))
        case Status.BORN | Status.WORKING | Status.REPORTED:
            return _stop(launch, _deadline_failure(launch), now, immediately=False, grace_s=TERM_GRACE_S)
        case Status.ENDING:
            return _with(launch, status=Status.KILLED, deadline=now + UNKILLABLE_S), (Kill(),)
        case Status.KILLED:
            message = f"still alive {UNKILLABLE_S:.0f} s after SIGKILL; the device is not used again"
            failure = Failure(category=Category.UNKILLABLE, message=message, phase=launch.phase)
            return _ended(launch, failure, unkillable=True)
        case Status.HELD:
            return _concluded_with(launch, launch.held, now)
        case Status.DRAINING:
            return _ended(launch, launch.held)
        case Status.OVER:
            return launch, ()


def _ended(launch: Launch, failure: Failure | None, *, unkillable: bool = False) -> tuple[Launch, tuple[Action, ...]]:
    conclusion = () if launch.has_outcome else (Conclude(failure),)
    return _with(launch, status=Status.OVER, has_outcome=True), (*conclusion, Forget(unkillable))


def _deadline_failure(launch: Launch) -> Failure:
    allowed = launch.deadlines.allowance(launch.phase, launch.measurement)
    return Failure(
        category=Category.DEADLINE,
        message=f"the phase '{launch.phase}' took longer than {allowed:g} s",
        phase=launch.phase,
    )


def _with(launch: Launch, **changes: object) -> Launch:
    return msgspec.structs.replace(launch, **changes)
