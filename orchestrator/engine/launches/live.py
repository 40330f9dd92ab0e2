"""A process that is under way, and what the loop learns of it."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.engine.launches import rendezvous
from orchestrator.engine.launches.gang import MemberEnd
from orchestrator.engine.launches.lifecycle import Launch, Status
from orchestrator.state.slots import NextLaunch
from orchestrator.system.process_end import Exit
from protocol.cell import Device
from protocol.failure import Failure
from protocol.messages import Gang, LaunchSpec
from protocol.paths import LaunchPaths
from protocol.result import Result


@dataclass
class Live:
    """A process of a launch under way. Times are seconds of the loop's clock, over_ns is monotonic.

    gang: its rendezvous, None with one device. siblings: all processes of its launch by rank, itself among them. noted:
    the loop watches its pidfd. begun: when it was requested. told: its outcome. because_of_another: ended for a
    sibling's failure. over_ns: when its outcome was on disk. state: of the process when it was to be ended.
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
    told: Result | Failure | None = None
    told_at: float | None = None
    because_of_another: bool = False
    over_ns: int | None = None
    state: str = ""

    @property
    def paths(self) -> LaunchPaths:
        """Its folder."""
        return LaunchPaths(Path(self.spec.folder))

    @property
    def was_stopped(self) -> bool:
        """Whether a signal kept it from running (state T) when it was to be ended."""
        return self.state.startswith("T")

    @property
    def fails(self) -> bool:
        """Whether it has failed, or is being ended without a result."""
        return isinstance(self.told, Failure) or (self.told is None and self.launch.cause is not None)

    @property
    def is_telling(self) -> bool:
        """Whether it has failed by itself, and only its last message is waited for."""
        return self.launch.status in {Status.DRAINING, Status.HELD}

    def ending(self) -> MemberEnd:
        """How it ended, once it has told."""
        assert self.told is not None
        return MemberEnd(
            device=self.device.uuid,
            label=self.device.label,
            outcome=self.told,
            at=self.told_at or 0.0,
            ended=self.because_of_another,
            # One that never was has begun nothing, which is no fault of its device.
            steps=None if self.gang is None or self.pid is None else rendezvous.steps(self.gang),
            stopped=self.was_stopped,
        )


@dataclass(frozen=True)
class Concluded:
    """Record this outcome of a launch, then call `acknowledge`. live: the process that decides it."""

    live: Live
    outcome: Result | Failure


@dataclass(frozen=True)
class Gone:
    """The process is gone. exit: None where it never existed, or cannot be killed: its pidfd is still open then."""

    live: Live
    exit: Exit | None
    unkillable: bool


Happening = Concluded | Gone
