"""A running process of a launch (measurement), and what the loop learns about it."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.config.run_configuration import Configuration
from orchestrator.engine.kind import LaunchTerms
from orchestrator.engine.launches import rendezvous
from orchestrator.engine.launches.gang import MemberEnd
from orchestrator.engine.launches.lifecycle import Launch, Status
from orchestrator.plan import changing_shapes
from orchestrator.state.slots import NextLaunch
from orchestrator.system.process_end import Exit
from protocol.cell import Device
from protocol.failure import Failure, Phase
from protocol.messages import Assign, Gang, LaunchSpec
from protocol.paths import LaunchPaths
from protocol.result import Result


@dataclass
class Live:
    """A running process of a launch. Times are seconds of the loop's clock.

    next: launch that the process belongs to. launch: state of this process (lifecycle.py). begun: time of the request.
    oom_kills: the kernel's count of out-of-memory kills at that time, None if unknown. gang: connection to the other
    processes; None if there are none. siblings: all processes of the launch by rank, this one included. pid, pidfd:
    None before the process exists; pidfd also once it is reaped. noted: whether the loop watches the pidfd. outcome_at:
    when it first reported an outcome or died. because_of_another: whether the process was ended because another one
    failed or was ended. over_ns: monotonic time at which the outcome was on disk. state: the kernel's state of the
    process before it was sent SIGTERM; "" without SIGTERM. entered: start of each phase in monotonic nanoseconds.
    """

    next: NextLaunch
    device: Device
    spec: LaunchSpec
    launch: Launch
    begun: float
    oom_kills: int | None
    gang: Gang | None = None
    siblings: tuple["Live", ...] = ()
    pid: int | None = None
    pidfd: int | None = None
    noted: bool = False
    outcome: Result | Failure | None = None
    outcome_at: float | None = None
    because_of_another: bool = False
    over_ns: int | None = None
    state: str = ""
    entered: dict[Phase, int] = field(default_factory=dict)

    @property
    def paths(self) -> LaunchPaths:
        """Paths of this process's files."""
        return LaunchPaths(Path(self.spec.folder))

    @property
    def was_stopped(self) -> bool:
        """Whether a signal had stopped the process (state T) before it got SIGTERM. False if it only got SIGKILL."""
        return self.state.startswith("T")

    @property
    def fails(self) -> bool:
        """Whether the process has failed, or is being ended without a result. False while `is_draining`."""
        return isinstance(self.outcome, Failure) or (self.outcome is None and self.launch.cause is not None)

    @property
    def is_draining(self) -> bool:
        """Whether the process failed or died by itself, and the outcome is not final yet.

        If it died, its last message may still come. If it failed, the cause of its failure may still be reported.
        """
        return self.launch.status in {Status.DRAINING, Status.HELD}

    def assignment(self, configuration: Configuration, terms: LaunchTerms) -> Assign:
        """Return the message that gives the process its work, the answer to the worker's Hello."""
        model = configuration.by_name[self.next.cell.model]
        may_compile = self.next.cell.compiles or model.own is not None
        return Assign(
            launch=self.spec.launch,
            token=self.spec.token,
            cell=self.next.cell,
            round=self.next.slot[1],
            device=self.device,
            model=model,
            measurement=terms.measurement,
            deadlines=terms.deadlines,
            cache_folder=configuration.cache_folder,
            compiler_caches=str(self.paths.compiler_caches) if may_compile else "",
            shapes=changing_shapes.of_launch(self.next.cell, configuration, self.next.slot[1]),
            injection=terms.injection,
            gang=self.gang,
            steps=terms.steps,
        )

    @property
    def measuring(self) -> tuple[int, int]:
        """(begin, end) of the measurement, warm-up included, in monotonic nanoseconds.

        Until warm-up starts, begin is the time of the request. Until the measurement has ended, end is now.
        """
        begin_ns = self.entered.get(Phase.WARM_UP, self.spec.requested_ns)
        return begin_ns, self.entered.get(Phase.FINISH, time.monotonic_ns())

    def ending(self) -> MemberEnd:
        """Return how the process ended, for gang.py. It must have an outcome."""
        assert self.outcome is not None
        return MemberEnd(
            device=self.device.uuid,
            label=self.device.label,
            outcome=self.outcome,
            at=self.outcome_at or 0.0,
            ended=self.because_of_another,
            # A process that never existed has begun no transfer, without any fault of its device.
            steps=None if self.gang is None or self.pid is None else rendezvous.steps(self.gang),
            stopped=self.was_stopped,
        )


@dataclass(frozen=True)
class Concluded:
    """A launch has an outcome. Record it, then call Fleet.acknowledge. live: the process that decides the outcome."""

    live: Live
    outcome: Result | Failure


@dataclass(frozen=True)
class Gone:
    """A process is gone. Or SIGKILL cannot end it: then `unkillable` is True, and the receiver closes live.pidfd.

    exit: None if the process is unkillable or was never made.
    """

    live: Live
    exit: Exit | None
    unkillable: bool


Happening = Concluded | Gone
