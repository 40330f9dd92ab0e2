"""Make the launches that are due, and carry out what becomes of them.

    next_launches ─▶ journal Start ─▶ fork ─▶ … ─▶ Concluded ─▶ result file, journal, Ack    transitions.step(Ended)
                                                   Gone ──▶ gates ──▶ Passed ─▶ journal      transitions.step(Freed)

The decisions are pure: orchestrator/state/ says what is next and when to stop, lifecycle.py how one launch goes on.
"""

import math
import os
import time
from collections.abc import Iterable, Sequence

import zmq

from orchestrator.engine.adaptive_launches import AdaptiveLaunches
from orchestrator.engine.announcer import Announcer
from orchestrator.engine.failure_context import FailureContext
from orchestrator.engine.launches.fleet import Fleet
from orchestrator.engine.launches.live import Concluded, Gone, Happening, Live
from orchestrator.engine.loop_clock import LoopClock
from orchestrator.engine.memory_gate import Gates, Passed
from orchestrator.engine.recorder import Recorder
from orchestrator.engine.run_context import RunContext
from orchestrator.engine.unavailable_gpus import Waiting
from orchestrator.gpu.telemetry import validity
from orchestrator.gpu.telemetry.client import LaunchTelemetry
from orchestrator.state import blocked_gpus, stopping, transitions
from orchestrator.state.added_launches import Doubt
from orchestrator.state.slots import (
    Added,
    Dropped,
    Ended,
    Event,
    Freed,
    NextLaunch,
    Postponed,
    Quarantined,
    RunState,
    SlotStatus,
    Started,
    StopAsked,
    Withdrawn,
)
from orchestrator.state.stopping import GENTLE_GRACE_S, Order
from orchestrator.store.records import End
from protocol.cell import Device
from protocol.failure import Failure
from protocol.messages import GpuBroken, TooHot, XidSeen
from protocol.result import Result


class Conductor:
    """The run's state and its launches. Every method raises StorageError when the journal refuses.

    poller: gets the pidfds that the loop waits for. clock: the loop's. telemetry: None once there is none.
    failure_context: what else is known of the GPUs.
    """

    def __init__(self, around: RunContext, begun: RunState, poller: zmq.Poller, clock: LoopClock) -> None:
        stored = around.stored
        self.state = begun
        self.fleet = Fleet(stored, around.kind, around.paths, around.link, around.nursery.fork)
        self.gates = Gates(stored.devices)
        self.recorder = Recorder(around.journal)
        self.telemetry = around.telemetry
        self.failure_context = FailureContext(stored.devices, shares=stored.configuration.allow_busy)
        self._next_rounds = around.kind.next_rounds
        self._announcer = Announcer(stored, around.display, rounds=self._next_rounds is not None)
        self.tell = self._announcer.tell
        self._devices = {device.uuid: device for device in stored.devices}
        self._poller = poller
        self._clock = clock
        self._witness = LaunchTelemetry(stored.devices, around.paths)
        self._results: dict[int, Result] = {}
        self._staying: dict[int, set[str]] = {}
        self._waiting = Waiting()
        self._budget = around.budget
        self._adaptive = AdaptiveLaunches(around)
        self._seed = stored.configuration.seed
        for scope in begun.skipped:  # also where the one who found out was killed before it was written down
            self._skipped(scope, "")

    @property
    def work_left(self) -> bool:
        """Whether launches are still to be made, now or later."""
        return not self.state.stopping and self.state.settled < len(self.state.slots)

    @property
    def busy(self) -> bool:
        """Whether there is time to wait for a launch or a device that is not free."""
        in_time = self._budget is None or time.monotonic() < self._budget.latest
        return in_time and any((self.fleet.live, self.gates, self._waiting))

    def launch_what_is_due(self) -> bool:
        """Start every launch that has its devices. Returns whether it started any."""
        self._end_what_takes_too_long()
        self._keep_to_the_budget()
        self.state, following = transitions.next_launches(self.state)
        if not following and self.begin_rounds():
            self.state, following = transitions.next_launches(self.state)
        for one in following:
            self._launch(one)
        return bool(following)

    def begin_rounds(self) -> bool:
        """Add a round where devices are idle and there is time. Returns whether any was added."""
        if self._next_rounds is None or self._budget is None or self.state.stopping:
            return False
        budget, left_s = self._budget, self._budget.ends - time.monotonic()
        slots = self._next_rounds(self.state, self._seed, lambda cell: budget.expected_s(cell) <= left_s)
        if slots:
            self.recorder.added(slots)
            self._step(Added(slots))
        return bool(slots)

    def in_doubt(self) -> tuple[Doubt, ...]:
        """Return the cells that leave a GPU SUSPECT after the launches so far. Slow: merges the run."""
        return self._adaptive.look(self.state)

    def add_launches(self, doubts: Sequence[Doubt]) -> bool:
        """Add launches for these doubts if that is still possible. Returns whether it has."""
        more = self._adaptive.over(self.state, doubts)
        if not more.slots:
            return False
        self.recorder.added(*more)
        self._step(Added(more.slots))
        self._announcer.added(*more)
        return True

    def carry_out(self, happenings: Iterable[Happening]) -> None:
        """Record what the fleet reports, and let the loop wait for new processes."""
        for happening in happenings:
            match happening:
                case Concluded(live, outcome):
                    end = self._record(live, outcome)
                    self.fleet.acknowledge(live, end.at_ns)
                case Gone(live):
                    if live.pidfd is not None:  # it cannot be killed: nobody waits for it any more
                        self._poller.unregister(live.pidfd)
                        os.close(live.pidfd)
                    self.let_pass(self.gates.admit(happening, self.telemetry, self._clock.now()))
        for live in self.fleet.live.values():
            if live.pidfd is not None and not live.noted:
                live.noted = True
                self._poller.register(live.pidfd, zmq.POLLIN)
                self.recorder.spawned(live)

    def let_pass(self, passed: Passed | None) -> None:
        """Take back the device of a process that is gone; with its last device a launch is over."""
        if passed is None:
            return
        uuid, launch = passed.device.uuid, passed.gone.live.spec.launch
        staying = self._staying[launch]
        staying.remove(uuid)
        if last := not staying:
            del self._staying[launch]
            self.recorder.left(passed)
        if passed.gone.unkillable:
            self._step(Quarantined(uuid, passed.obstacle))
        live = passed.gone.live
        self._doubt(live, passed.device, last=last)
        measured = self.state.slots[live.next.slot].status is SlotStatus.MEASURED
        if self._budget is not None and measured and last:
            self._budget.finished(live.next.cell, self._lasted_s(live))
        self._block(passed)
        if uuid not in self._waiting:
            self._step(Freed(uuid))

    def beware(self, message: XidSeen | GpuBroken | TooHot) -> None:
        """Handle a GPU's error or heat. A grave one quarantines it and ends what runs there."""
        hazards = self.failure_context.hazards
        device, news = self._devices[message.uuid], hazards.is_news(message)
        failure = hazards.heard(message)
        if self.state.devices[device.uuid].quarantined:
            return
        if isinstance(message, TooHot):
            self.recorder.too_hot(message)
        if failure is None:
            if news:
                self.tell("warning", f"{device.label}: Xid {hazards.since(device.uuid, message.at_ns)}")
            return
        self._step(Quarantined(device.uuid, failure.message))
        for live in [one for one in self.fleet.live.values() if one.device.uuid == device.uuid]:
            self.carry_out(self.fleet.end(live, failure, self._clock.now()))

    def look_after_the_waiting(self, now: float) -> None:
        """Free GPUs that have cooled down or that others have left, or give them up."""
        known = self.failure_context
        over = self._waiting.over(now, known.samples, known.foreign.here, stopping=self.state.stopping)
        for uuid, given_up in over:
            if given_up:
                self._step(Quarantined(uuid, given_up))
            self._step(Freed(uuid))

    def obey(self, order: Order) -> None:
        """Carry out a stop that a person or the time limit demands."""
        now = self._clock.now()
        match order:
            case Order.BEGIN_NOTHING:
                self._step(StopAsked())
                self.tell("warning", "stopping: running cells may end, nothing new begins (once more to stop at once)")
            case Order.END_GENTLY:
                self.carry_out(
                    self.fleet.stop(stopping.stop_requested(), now, immediately=False, grace_s=GENTLE_GRACE_S)
                )
            case Order.KILL:
                self.tell("warning", "stopping now: what still runs is killed")
                self.carry_out(self.fleet.stop(stopping.stop_requested(), now, immediately=True, grace_s=0))
            case Order.TIME_IS_UP:
                assert self._budget is not None
                self._budget.ran_out(time.monotonic())
                self.carry_out(self.fleet.stop(stopping.out_of_time(), now, immediately=True, grace_s=0))
                self._keep_to_the_budget()

    def show(self, note: str, over_by: float = math.inf) -> None:
        """Show the state of the run. note: of idle devices. over_by: monotonic end of a requested stop."""
        now = time.monotonic()
        limited = None if self._budget is None else self._budget.time(now)
        stops_s = None if over_by == math.inf else over_by - now
        samples = self.failure_context.samples
        self._announcer.show(self.state, self.fleet.live, samples, limited=limited, stops_s=stops_s, note=note)

    def _launch(self, following: NextLaunch) -> None:
        self.recorder.started(following)
        self._step(Started(following.launch, following.slot, following.device, following.cell.batch_size))
        self._staying[following.launch] = set(following.cell.devices)
        self.carry_out(self.fleet.request(following, self._clock.now()))
        self.show("")

    def _end_what_takes_too_long(self) -> None:
        now = time.monotonic()
        for live in tuple(self.fleet.live.values()):
            began = now - self._lasted_s(live)
            if self._budget is not None and self._budget.takes_too_long(self.state, live.next.slot, began, now):
                self.carry_out(self.fleet.end(live, stopping.out_of_time(), self._clock.now(), immediately=True))

    def _lasted_s(self, live: Live) -> float:
        """Seconds since the request of a launch, without pauses of the orchestrator."""
        return self._clock.now() - live.begun

    def _keep_to_the_budget(self) -> None:
        if self._budget is None:
            return
        for slot, reason in self._budget.decide(self.state, time.monotonic()):
            if reason:
                self.recorder.dropped(slot, reason)
            self._step(Dropped(slot) if reason else Postponed(slot))

    def _record(self, live: Live, outcome: Result | Failure) -> End:
        if isinstance(outcome, Failure):
            self.recorder.require_room()
            outcome = self.failure_context.as_read(outcome, live)
        end = self.recorder.ended(live, outcome)
        if self._budget is not None and isinstance(outcome, Result):
            self._budget.measured(outcome)
        why = "" if end.failure is None else end.failure.message
        self._step(Ended(live.spec.launch, end.failure, end.figures), why)
        if isinstance(outcome, Result):
            self._results[live.spec.launch] = outcome
        self._announcer.ended(self.state, live, outcome, self._lasted_s(live))
        return end

    def _doubt(self, live: Live, device: Device, *, last: bool) -> None:
        """Withdraw a result that must not be believed: its GPU was used by others, or was slowed down.

        It stays, marked, where the user allows other processes, or where repeating it is not worthwhile or not
        possible. A GPU that was slowed down rests. last: of the launch's devices.
        """
        result = self._results.get(live.spec.launch)
        if result is None:
            return
        if last:
            del self._results[live.spec.launch]
        if who := self.failure_context.foreign.during(device.uuid, live.spec.requested_ns):
            if self.failure_context.shares:
                self.recorder.beside(live, who)
            else:
                self._withdraw(live, device, validity.contaminated(who))
                return
        if self.state.stopping or self._budget is not None or self.state.devices[device.uuid].quarantined:
            return
        readings = self._witness.readings(device, result)
        failure = validity.judge(readings)
        if failure is None or not transitions.worth_repeating(self.state, live.spec.launch, failure.category):
            return
        self._waiting.rest(device.uuid, readings.temperature_max_c, self._clock.now(), time.monotonic_ns())
        self._withdraw(live, device, failure)

    def _withdraw(self, live: Live, device: Device, failure: Failure) -> None:
        self._results.pop(live.spec.launch, None)
        self.recorder.ended(live, failure)
        self._step(Withdrawn(live.spec.launch, failure))
        again = self.state.slots[live.next.slot].status is SlotStatus.WAITING
        rests = "It rests, then it" if device.uuid in self._waiting else "It"
        then = f"{rests} is measured again." if again else "It is not measured again: that was done often enough."
        told = {"cell_id": live.next.planned, "category": failure.category, "again": again}
        words = f"{device.label}: {live.next.cell.id}: {failure.message}. {then}"
        self.tell("warning", words, "result_withdrawn", **told)

    def _block(self, passed: Passed) -> None:
        """Let a GPU wait that others compute on, or whose memory is still in use."""
        uuid = passed.device.uuid
        who = self.failure_context.foreign.here(uuid)
        out = self.state.stopping or self.state.devices[uuid].quarantined or (who and self.failure_context.shares)
        if out or not (who or passed.obstacle):
            return
        self._waiting.block(uuid, self.gates.limit_bytes(uuid), self._clock.now())
        why = f"{who} computes on it" if who else passed.obstacle
        self.tell(
            "warning", f"{passed.device.label} waits: {why}. After {blocked_gpus.PATIENCE_S:.0f} s it is given up."
        )

    def _step(self, event: Event, why: str = "") -> None:
        """Advance the run's state; record and report what that decides. why: the message of a failure."""
        before, self.state = self.state, transitions.step(self.state, event)
        for uuid, device in self.state.devices.items():
            if device.quarantined and not before.devices[uuid].quarantined:
                self.recorder.taken_out(uuid, device.quarantined)
                self.tell("error", f"{self._devices[uuid].label} is taken out of this run: {device.quarantined}")
        for scope in self.state.skipped.keys() - before.skipped.keys():
            self._skipped(scope, why)
        if self.state.most < before.most:
            self.tell("warning", f"the host ran out of memory: from now on {self.state.most} at once")

    def _skipped(self, scope: str, why: str) -> None:
        skip = self.state.skipped[scope]
        where = " and ".join(self._devices[uuid].label for uuid in skip.devices)
        reason = f"{skip.category} on {where}" + (f": {why}" if why else "")
        self.recorder.skipped(skip, reason)
        self.tell("warning", f"{scope} is skipped on every device: {reason}")
